"""The nodes' side."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import blindsum.flower
from quickstart import task

app = ClientApp(mods=[blindsum.flower.mod()])


def prepared(message, context):
    """The model of the message, and this node's images."""
    run, node = context.run_config, context.node_config
    net = task.make_net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loaders = task.load_part(node["partition-id"], node["num-partitions"], run["images"], run["batch-size"])
    return net, *loaders


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model of the message on this node's images."""
    run = context.run_config
    net, loader, _ = prepared(message, context)
    loss = task.train(net, loader, run["local-epochs"], run["learning-rate"])
    content = RecordDict(
        {
            "arrays": ArrayRecord(net.state_dict()),
            "metrics": MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)}),
        }
    )
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Test the model of the message on this node's images."""
    net, _, loader = prepared(message, context)
    loss, accuracy = task.test(net, loader)
    metrics = {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(loader.dataset)}
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
