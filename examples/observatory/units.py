"""Observation units: each follows objects, loses its link, and comes back to the latest version of what it follows.

Commands come on standard input: "away UNIT", "back UNIT".
"""

import argparse
import sys
import threading
from pathlib import Path

from godwit.notify import Connection, Notification, Notify, State

OBJECTS = ("camera-config", "firmware")

_printing = threading.Lock()


def say(text: str) -> None:
    """Print a line; units talk at the same time."""
    with _printing:
        print(text, flush=True)


class Unit:
    """One observation unit with its certificate and its state."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name = name
        self._options = options
        self._notify: Notify | None = None

    def back(self) -> None:
        """Start, as after a reboot: what the unit knows is in its state file."""
        o, folder = self._options, Path(self._options.dir)
        self._notify = Notify(
            domain=o.domain,
            group_id=o.group,
            client_id=self.name,
            state=State(filename=folder / f"{self.name}.json"),
            connection=Connection(
                address=o.address,
                port=o.port,
                ca_cert=folder / "ca.crt",
                cert=folder / f"{self.name}.crt",
                key=folder / f"{self.name}.key",
            ),
        )
        for name in OBJECTS:
            self._notify.register(name).subscribe(self._told)
        self._notify.connect(timeout=30)
        say(f"{self.name} follows {', '.join(OBJECTS)}")

    def away(self) -> None:
        """Stop."""
        if self._notify is not None:
            self._notify.disconnect()
            self._notify = None
            say(f"{self.name} is away")

    def _told(self, n: Notification) -> None:
        if not n.unknown:
            say(f"{self.name} has {n.object} version {n.version}")


def main() -> None:
    """Run the units until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("units", nargs="+", help="the units' names; the folder has a certificate of each")
    parser.add_argument("--dir", default=".", help="folder with certificates and state files")
    parser.add_argument("--address", default="localhost")
    parser.add_argument("--port", type=int, default=50051)
    parser.add_argument("--domain", default="animal.observer")
    parser.add_argument("--group", default="region-1")
    options = parser.parse_args()
    units = {name: Unit(name, options) for name in options.units}
    for unit in units.values():
        unit.back()
    for line in sys.stdin:
        command, name = line.split()
        (units[name].away if command == "away" else units[name].back)()
    for unit in units.values():
        unit.away()


if __name__ == "__main__":
    main()
