"""Makes the folder `base`: a small GPT-2 that has read Python's documentation, in place of one from a hub."""

from pydoc_data.topics import topics

import torch
from transformers import ByT5Tokenizer, GPT2Config, GPT2LMHeadModel

STEPS = 300
LENGTH = 64
TOPICS = 30

torch.manual_seed(0)
# A token for each byte: this tokeniser needs no file.
tokenizer = ByT5Tokenizer(extra_ids=0)
sizes = {"n_positions": LENGTH, "n_embd": 64, "n_layer": 2, "n_head": 4}
ends = {"bos_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
net = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes, **ends))
text = torch.tensor(tokenizer("\n".join(list(topics.values())[:TOPICS]))["input_ids"])
optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3)
for _ in range(STEPS):
    starts = torch.randint(len(text) - LENGTH, (32,))
    batch = text[starts[:, None] + torch.arange(LENGTH)]
    loss = net(input_ids=batch, labels=batch).loss
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
net.save_pretrained("base")
tokenizer.save_pretrained("base")
print(f"base: {net.num_parameters():,} parameters, loss {loss.item():.3f}")
