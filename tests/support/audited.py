"""Audits without a game: results made up by rule, in any state. Also a worker that never ends such an audit:

python -m tests.support.audited RUN_ID, as `LocalExecutor(worker=...)` starts it.
"""

import sys
import time

from dpcl_core.attacks import one_run
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.runs import worker
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.run import Failure
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.support import replay
from tests.support.waiting import NEVER_SECONDS

COMMAND = (sys.executable, "-m", "tests.support.audited")


def result(epsilon: float, proved: float = 0.5, accounted: float | None = None) -> Audited:
    """What an audit in one training could find."""
    return Audited(
        epsilon, epsilon if accounted is None else accounted, proved, 1e-5, 0.95, 1844, "made up", "knows all",
        "examples, each there by a coin", "run", "noise × 0.45", "gaussian", {"counting": 0.0, "gaussian": proved}, 368, 231,
    )  # fmt: skip


def fill(store: Store, run_id: str, status: str, *results: Audited, failure: Failure | None = None) -> str:
    """An audit of a run in any state, with these results, and its id."""
    audits = Audits(store)
    audit_id = audits.create(run_id)
    for each in results:
        audits.add(audit_id, each)
    replay.set_state(store, audit_id, status, failure or replay.a_failure("worker-died"))
    return audit_id


def endless(spec: RunSpec, epsilon: float) -> Audited:
    """An audit at a budget that never ends and says nothing meanwhile."""
    time.sleep(NEVER_SECONDS)
    return result(epsilon)


if __name__ == "__main__":
    one_run.audited = endless
    sys.exit(worker.main(sys.argv[1:], worker=COMMAND))
