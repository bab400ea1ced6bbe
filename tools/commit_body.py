"""A hook of pre-commit: a commit that changes recorded files has a body, which says which numbers change and why.

With a range of commits, such as `origin/main..HEAD`, all hooks of messages look at each commit in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

RECORDED = ("results", "figures")
#: Where git puts the difference behind a message, and what it puts into one that is no part of a body.
SCISSORS = re.compile(r"^# -+ >8 -+$", re.MULTILINE)
NO_BODY = re.compile(r"#|\s*$|[A-Za-z-]+-by: ")


def has_body(message: str) -> bool:
    """Return whether a message says more than its subject: comments and `Signed-off-by:` do not count."""
    lines = [line for line in SCISSORS.split(message)[0].splitlines() if not line.startswith("#")]
    _, *body = "\n".join(lines).strip().splitlines() or [""]
    return any(not NO_BODY.match(line) for line in body)


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)


def flaws(commits: str) -> list[str]:
    """Return the violations of message hooks in a range of commits: the commit, and the name of the hook."""
    config = yaml.safe_load(Path(".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"] if hook["language"] == "pygrep"]
    found = []
    listed = git("rev-list", "--reverse", commits)
    if listed.returncode:  # a range that git does not know, as in a shallow clone, must not pass
        raise SystemExit(listed.stderr.strip())
    for commit in listed.stdout.split():
        message = git("show", "--no-patch", "--format=%B", commit).stdout
        names = [hook["name"] for hook in hooks if re.search(hook["entry"], message, re.MULTILINE | re.DOTALL)]
        # of a merge, `diff-tree` lists nothing
        changed = git("diff-tree", "-r", "--no-commit-id", "--name-only", commit, "--", *RECORDED).stdout
        if changed and not has_body(message):
            names.append("commits that change recorded files say which numbers change")
        found += [f"{commit[:10]} {message.splitlines()[0]}\n  expected: {name}" for name in names]
    return found


def main(path: str) -> int:
    """Return 1, with a message, if the commit with this file of a message changes a record without a word.

    `path` may also be a range of commits.
    """
    if ".." in path:
        found = flaws(path)
        print(*found, sep="\n", end="\n" * bool(found), file=sys.stderr)
        return min(len(found), 1)
    changed = git("diff", "--cached", "--name-only", "--", *RECORDED).stdout.split("\n")[:-1]
    merges = git("rev-parse", "--quiet", "--verify", "MERGE_HEAD").returncode == 0
    if not changed or merges or has_body(Path(path).read_text(encoding="utf-8")):
        return 0
    print(
        f"{changed[0]}{f' and {len(changed) - 1} more' if len(changed) > 1 else ''}: recorded files change\n"
        "expected: a body below the subject of the commit\n"
        "do: say there which numbers change, and why",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
