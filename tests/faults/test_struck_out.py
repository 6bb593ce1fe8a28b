"""A node whose row in the register is deleted by somebody: it has no lease any more."""

from queuectl import State
from tests.contract.tools import forget
from tests.support import Lab, is_gone, wait_for


def test_a_node_that_was_struck_out_ends_its_runs_and_starts_over(server_lab: Lab) -> None:
    lab = server_lab
    # So long that nobody else takes its jobs over.
    lab.extra_env = {"QUEUECTL_LEASE": "1h", "QUEUECTL_HEARTBEAT": "200ms"}
    lab.node()
    lab.queue.enqueue(
        f"echo $$ >> {lab.folder}/pids; [ $QUEUECTL_ATTEMPT -gt 1 ] || exec sleep 1000", id="job1"
    )
    pid = lab.pid_in("pids")
    forget(lab.queue.store, lab.queue.nodes()[0]["id"])
    wait_for(lambda: "Goes on as node" in lab.log(), "the node to start over", within=30)
    assert is_gone(pid)
    assert lab.wait_state("job1", State.COMPLETED).attempts == 2
