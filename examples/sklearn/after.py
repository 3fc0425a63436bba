"""The same script in a job of three hospitals: `diff before.py after.py` is all that it takes."""

import sys

from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

import blindsum as bs
from blindsum.sklearn import ModelVector

share = int(sys.argv[1])
data, labels = load_digits(return_X_y=True)
data = data / 16
mine, test = slice(share, 1500, 3), slice(1500, None)

model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.05, random_state=0)
vector = ModelVector(model, classes=range(10), n_features=64)
with bs.join(sys.argv[2], job="digits", identity=f"hospital-{share}", ca="ca.pem", layout=vector) as job:
    for rnd in job.rounds():
        vector.load(rnd.model)
        model.partial_fit(data[mine], labels[mine], classes=range(10))
        rnd.submit(vector.change(), weight=500)
    vector.load(job.final_model)
print(f"accuracy {model.score(data[test], labels[test]):.3f}")
