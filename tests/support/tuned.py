"""A tuning without data or training: accuracy is a formula of the settings. Also a worker that carries such a tuning out:

python -m tests.support.tuned SECONDS RUN_ID, as `LocalExecutor(worker=...)` starts it; each trial takes so many seconds.
"""

import math
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import asdict

from dpcl_core import checks
from dpcl_core.errors import Diverged
from dpcl_core.events import Event, Progress
from dpcl_core.runs import worker
from dpcl_core.spec import Params
from dpcl_core.tuning import search
from dpcl_core.tuning.search import Prepare, Prepared
from dpcl_core.tuning.settings import Sizes, TuneSpec

SIZES = Sizes(n_tune=200, n_validation=86, n_final=286)
TOO_FAST = 1e-3  # a learning rate above it diverges


def a_tuning(n_trials: int = 20, method: str = "peft-ensemble", **more: object) -> TuneSpec:
    """A tuning on the private digits."""
    base = checks.parse({"method": method, "privacy": {"epsilons": [1.0]}, "seeds": [0]})
    return TuneSpec(base=base, n_trials=n_trials, **({"on": "private"} | more))


def accuracy(params: Params) -> float:
    """Best at a learning rate of 1e-5 and a clipping norm of 2."""
    drawn = asdict(params)
    return 1 / (1 + math.log10(drawn["learning_rate"] / 1e-5) ** 2 + math.log10(drawn["clip_norm"] / 2) ** 2)


def prepared_by(trained: Callable[[Params], float]) -> Prepare:
    """Opens nothing; this function makes an accuracy of a trial's settings."""

    def prepare(tune: TuneSpec, device: str) -> Generator[Event, None, Prepared]:
        yield Progress("data", 0, 1, None, "opening nothing")

        def train(params: Params) -> Generator[Progress, None, float]:
            yield Progress("training", 0, 1, 0, "training nothing")
            return trained(params)

        return Prepared("Digits (made up)", SIZES, train)

    return prepare


def preparing(seconds: float = 0.0, limit: float = TOO_FAST) -> Prepare:
    """Each trial takes so many seconds, and diverges above a learning rate."""

    def trained(params: Params) -> float:
        time.sleep(seconds)
        rate = asdict(params)["learning_rate"]
        if rate > limit:
            raise Diverged(f"the loss is not finite at step 7, learning rate {rate:.2g}")
        return accuracy(params)

    return prepared_by(trained)


def command(seconds: float) -> tuple[str, ...]:
    """What starts such a worker; the id of the run goes after it."""
    return (sys.executable, "-m", "tests.support.tuned", f"{seconds}")


if __name__ == "__main__":
    search.prepared = preparing(float(sys.argv[1]))
    sys.exit(worker.main(sys.argv[2:], worker=command(float(sys.argv[1]))))
