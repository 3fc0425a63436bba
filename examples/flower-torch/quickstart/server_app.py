"""The server's side."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import blindsum.flower
from quickstart import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds, and test the model after each on images that no node has."""
    run = context.run_config
    net = task.make_net()

    def test(number: int, arrays: ArrayRecord) -> MetricRecord:
        net.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = task.test(net, task.load_test(run["images"], run["batch-size"]))
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    strategy = FedAvg(fraction_evaluate=run["fraction-evaluate"])
    grid = blindsum.flower.SecureGrid(grid, context, strategy=strategy)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(net.state_dict()),
        num_rounds=run["num-server-rounds"],
        evaluate_fn=test,
    )
    for number, metrics in result.evaluate_metrics_serverapp.items():
        print(f"round {number}: accuracy {metrics['accuracy']:.3f}", flush=True)
