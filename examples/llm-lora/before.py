"""A hospital's own script: LoRA on a small language model, on a third of the texts on some sets of data."""

import sys

import torch
from peft import LoraConfig, get_peft_model
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from transformers import AutoTokenizer, GPT2LMHeadModel

share = int(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained("base")
texts = [load().DESCR for load in (load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine)]
tokens = torch.tensor(tokenizer("\n".join(texts))["input_ids"])
blocks = tokens[: len(tokens) // 64 * 64].view(-1, 64)
mine, test = blocks[:180][share::3], blocks[180:]

torch.manual_seed(share)
base = GPT2LMHeadModel.from_pretrained("base")
lora = LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
net = get_peft_model(base, lora)
optimiser = torch.optim.AdamW([weight for weight in net.parameters() if weight.requires_grad], lr=2e-2)


def train():
    """One epoch over the hospital's texts; gives the mean loss."""
    losses = []
    for batch in mine[torch.randperm(len(mine))].split(10):
        loss = net(input_ids=batch, labels=batch).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


for _ in range(10):
    print(f"loss {train():.3f}")
net.save_pretrained(f"adapters-{share}")
net.eval()
with torch.no_grad():
    print(f"loss on other texts {net(input_ids=test, labels=test).loss:.3f}")
