"""A Slurm of one node on this machine: its controller, its node's daemon and the keeper of its key, in one folder.

Nothing of a Slurm that is installed here is read or changed, and nothing of this one is left: key, sockets, ports,
state and logs are its own. The node has two CPUs and two GPUs that are files, which Slurm deals out as it would real
ones. By hand it runs a command with this Slurm, and ends it with the command:

    python tests/support/one_node.py snakemake --profile profiles/slurm all
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

#: Debian's packages, and what is needed of them.
PACKAGES = {"munge": ("munged",), "slurm-wlm": ("slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel")}
CPUS = 2
#: Files of devices, of which Slurm wants to be each GPU one; any will do, and these are everywhere.
GPUS = ("/dev/null", "/dev/zero")
NODE = "node1"
#: Seconds until a daemon answers, at the latest.
PATIENCE = 60

CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# no cgroups: a container may have none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
ReturnToService=2
KillWait=10
MinJobAge=3600
GresTypes=gpu
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing_packages() -> list[str]:
    """Return the packages of which something is not on PATH."""
    return [name for name, programs in PACKAGES.items() if not all(map(_find, programs))]


def _find(program: str) -> str | None:
    """Return where a program is; daemons lie in folders that are not on every user's PATH."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))


class OneNode:
    """The cluster, from `with` until its end.

    Parameters
    ----------
    folder
        Its own; nobody else may write there, or the key is refused.

    Attributes
    ----------
    environment
        What commands have to be told for this Slurm to be theirs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> OneNode:
        self._configure()
        try:
            self._keep_key()
            self.start_controller()
            self.start_node()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def ask(self, *command: str) -> str:
        """Return the output of a Slurm command."""
        done = subprocess.run(
            command, env=os.environ | self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def start_controller(self) -> None:
        """Start the controller, with the state that an earlier one left."""
        self._start("slurmctld", "-D")
        self._wait_for("slurmctld", "scontrol", "ping", said="is UP")

    def kill_controller(self) -> None:
        """Kill the controller as in a crash: state that it has not written yet is lost."""
        self._kill("slurmctld")

    def lose_node(self) -> None:
        """End the node's daemon, and tell the controller that the node is gone, as it would find after a while."""
        self._kill("slurmd")
        self.ask("scontrol", "update", f"nodename={NODE}", "state=down", "reason=lost")

    def start_node(self) -> None:
        """Start the node's daemon, and wait until jobs can be given to it."""
        self._start("slurmd", "-D")
        self._wait_for("slurmd", "sinfo", "--noheader", "--format=%T", said=("idle", "mixed", "alloc", "drain"))

    def state(self) -> str:
        """Return the state of the node: `idle`, `mixed`, `allocated`, `draining`, `drained` and the like."""
        return self.ask("sinfo", "--noheader", "--format=%T").strip()

    def jobs(self, *states: str) -> dict[str, str]:
        """Return the comments of all jobs in these states, by number: the plugin's words for rule and wildcards."""
        said = self.ask("squeue", "--noheader", "--format=%i %k", f"--states={','.join(states or ('all',))}")
        return dict(line.split(maxsplit=1) for line in said.splitlines())

    def _configure(self) -> None:
        for name in ("state", "spool", "bin"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)  # the socket within is refused to nobody
        values = {
            "folder": self.folder,
            "host": socket.gethostname().split(".")[0],
            "user": pwd.getpwuid(os.getuid()).pw_name,
            "controller_port": _free_port(),
            "node_port": _free_port(),
            "node": NODE,
            "cpus": CPUS,
            "gpus": len(GPUS),
            "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 - 1024,
        }
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
        (self.folder / "gres.conf").write_text("".join(f"Name=gpu File={file}\n" for file in GPUS))
        # Snakemake's plugin starts a step without any variable of Slurm's but the job's, and so without SLURM_CONF
        srun = self.folder / "bin" / "srun"
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {_find("srun")} "$@"\n')
        srun.chmod(0o755)
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))

    def _keep_key(self) -> None:
        files = {"key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed", "socket": "socket"}
        options = [f"--{option}={self.folder}/munge.{suffix}" for option, suffix in files.items()]
        self._start("munged", "--foreground", "--force", *options)
        self._until("munged", (self.folder / "munge.socket").exists)

    def _start(self, daemon: str, *options: str) -> None:
        program = _find(daemon)
        assert program is not None, f"{daemon} is not installed"
        with (self.folder / f"{daemon}.out").open("ab") as out:
            self._daemons[daemon] = subprocess.Popen(
                [program, *options],
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def _wait_for(self, daemon: str, *command: str, said: str | tuple[str, ...]) -> None:
        wanted = (said,) if isinstance(said, str) else said

        def answers() -> bool:
            with suppress(RuntimeError, subprocess.TimeoutExpired):
                return any(word in self.ask(*command) for word in wanted)
            return False

        self._until(daemon, answers)

    def _until(self, daemon: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self._daemons[daemon].poll() is not None or time.monotonic() > deadline:
                logs = [self.folder / name for name in (f"{daemon}.log", f"{daemon}.out", "munge.log")]
                text = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs if log.exists())
                raise RuntimeError(f"{daemon} does not start:\n{text}")
            time.sleep(0.1)

    def _kill(self, daemon: str, sent: signal.Signals = signal.SIGKILL) -> None:
        process = self._daemons.pop(daemon, None)
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(sent)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _end(self) -> None:
        """End all jobs, then the daemons; the key's last, since the others need it to the end."""
        with suppress(RuntimeError, subprocess.TimeoutExpired):
            if "slurmctld" in self._daemons and self.jobs("pending", "running", "completing"):
                self.ask("scancel", *self.jobs("pending", "running"))
                deadline = time.monotonic() + PATIENCE
                while self.jobs("running", "completing") and time.monotonic() < deadline:
                    time.sleep(0.2)
        for daemon in ("slurmd", "slurmctld", "munged"):
            self._kill(daemon, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def main(command: Sequence[str]) -> int:
    """Run a command with a Slurm of its own; return its exit code."""
    if missing := missing_packages():
        print(f"not installed: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all ends in order
    with (
        tempfile.TemporaryDirectory(prefix="one-node-", ignore_cleanup_errors=True) as folder,
        OneNode(Path(folder)) as cluster,
    ):
        return subprocess.run(command, env=os.environ | cluster.environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
