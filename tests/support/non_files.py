"""What can lie where a file should: nothing that is read may wait for it, or read it without end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

#: By kind, what a message calls it; a link that leads in a circle or nowhere is the system's own error.
IN_PLACE_OF_A_FILE = {
    "pipe": "a named pipe in place of a file",
    "device": "a device in place of a file",
    "socket": "a socket in place of a file",
    "folder": "a folder in place of a file",
    "circle": "Too many levels of symbolic links",
}


def put(kind: str, path: Path) -> None:
    """Put something in the place of a file, whatever is there."""
    if path.is_file() or path.is_symlink():
        path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        # a socket's path is short, and its folder's may be long
        folder = os.open(path.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.name)
