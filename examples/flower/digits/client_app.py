"""The nodes' side."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import blindsum.flower
from digits import task

app = ClientApp(mods=[blindsum.flower.mod()])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model of the message on this node's images."""
    model = {name: np.array(array.numpy()) for name, array in message.content["arrays"].items()}
    part, parts = context.node_config["partition-id"], context.node_config["num-partitions"]
    images, labels = task.load_part(part, parts)
    loss = task.train(model, images, labels, context.run_config["learning-rate"])
    content = {
        "arrays": ArrayRecord({name: Array(array) for name, array in model.items()}),
        "metrics": MetricRecord({"num-examples": len(labels), "train_loss": loss}),
    }
    return Message(content=RecordDict(content), reply_to=message)
