"""A hospital's own script: handwritten digits by logistic regression, on a third of the data."""

import sys

from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

share = int(sys.argv[1])
data, labels = load_digits(return_X_y=True)
data = data / 16
mine, test = slice(share, 1500, 3), slice(1500, None)

model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.05, random_state=0)
for _ in range(10):
    model.partial_fit(data[mine], labels[mine], classes=range(10))
print(f"accuracy {model.score(data[test], labels[test]):.3f}")
