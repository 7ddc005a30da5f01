"""The subcommand nzc publish: create a folder with what may be published of a run."""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nzc.app.build import build
from nzc.app.components import build_policy
from nzc.app.config import name_of_people
from nzc.app.errors import Parser
from nzc.privacy.promise import Promise
from nzc.publishing import folder as published
from nzc.storage.predictions import PredictionStore


def publish(arguments: list[str]) -> int:
    """Create a folder with what may be published of a run."""
    parser = Parser(
        "nzc publish", description="Create a folder with what may be published of a finished run."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="outputs/… of a run with rng=system")
    parser.add_argument("dest", metavar="DEST", type=Path, help="a folder that does not exist yet")
    parser.add_argument(
        "--name", help="whom the private data are about (default: dataset.name of the run)"
    )
    parser.add_argument(
        "--store",
        type=Path,
        help="the store, or the ledger's file, that knows the run (default: that of the run)",
    )
    chosen = parser.parse_args(arguments)
    print(*publish_run(chosen.run, chosen.dest, chosen.store, chosen.name), chosen.dest, sep="\n")
    return 0


def publish_run(
    folder: Path, dest: Path, store: Path | None = None, name: str | None = None
) -> list[str]:
    """Create the folder `dest` with what may be published of the run in `folder`.

    `store`, which may be the ledger's file, and `name`, that of the people, are by default those of
    the run's configuration. Returns and errors are those of `nzc.publishing.folder.publish`.
    """
    run = published.read_run(folder)
    name = (name or name_of_people(run.config) or "").strip()
    ledger = _ledger(run.config, store)

    def promise_of(sizes: list[int]) -> Promise:
        protocol = build(run.config, "teachers")
        return Promise.of(build_policy(run.config, protocol, lambda: sum(sizes)), sizes)

    return published.write_published(run, dest, ledger, name, promise_of)


def _ledger(cfg: Any, store: Path | None) -> Path:
    if store is not None and store.is_file():
        return store
    home = Path(cfg.hydra.runtime.cwd)
    ledger = OmegaConf.select(cfg, "paths.ledger")
    if store is None and ledger:
        return Path(home, ledger)
    return PredictionStore(store or home / cfg.paths.store).ledger
