"""The server's side."""

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import blindsum.flower
from digits import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds, and test the model after each."""
    run = context.run_config
    nodes = int(run["min-nodes"])
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    arrays = ArrayRecord({name: Array(array) for name, array in task.initial().items()})
    images, labels = task.load_test()

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        model = {name: array.numpy() for name, array in arrays.items()}
        return MetricRecord({"accuracy": task.accuracy(model, images, labels)})

    if run["secure"]:
        grid = blindsum.flower.SecureGrid(grid, context, strategy=strategy)
    result = strategy.start(
        grid=grid,
        initial_arrays=arrays,
        num_rounds=int(run["num-server-rounds"]),
        timeout=float(run["timeout"]),
        evaluate_fn=evaluate,
    )
    last = max(result.evaluate_metrics_serverapp)
    print(f"accuracy {result.evaluate_metrics_serverapp[last]['accuracy']:.3f}", flush=True)
