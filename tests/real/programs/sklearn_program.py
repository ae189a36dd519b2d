"""scikit-learn: Cython that calls Python metrics and kernels, Python pipeline steps, OpenMP, joblib threads."""

import sys
import threading
import warnings
from typing import Any

import numpy as np
from sklearn import (
    cluster,
    datasets,
    ensemble,
    linear_model,
    metrics,
    model_selection,
    neighbors,
    pipeline,
    preprocessing,
    svm,
)
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

steps = 0
lock = threading.Lock()


def step(value: Any) -> Any:
    global steps
    with lock:
        steps += 1
    return value


def refused(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:80]}"


def distance(a: Any, b: Any) -> float:
    return step(float(np.abs(a - b).sum()))


def breaks(a: Any, b: Any) -> float:
    raise LookupError("in a metric")


class Majority(ClassifierMixin, BaseEstimator):
    """An estimator of the program's own."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def fit(self, x: Any, y: Any) -> "Majority":
        if self.fails:
            raise RuntimeError("can't fit")
        self.classes_, counts = np.unique(step(y), return_counts=True)
        self.most_ = self.classes_[counts.argmax()]
        return self

    def predict(self, x: Any) -> Any:
        return np.full(len(step(x)), self.most_)


def callbacks(x: Any, y: Any) -> None:
    near = neighbors.KNeighborsClassifier(3, metric=distance, algorithm="ball_tree").fit(x[:40], y[:40])
    print("metric", near.predict(x[100:105]).tolist())
    print(refused(lambda: neighbors.BallTree(x[:40], metric=breaks)))
    print(refused(lambda: neighbors.KNeighborsClassifier(3, metric=breaks).fit(x, y).predict(x[:1])))
    kernel = svm.SVC(kernel=lambda a, b: step(a @ b.T)).fit(x, y)
    print("kernel", round(kernel.score(x, y), 3))
    steps_ = pipeline.make_pipeline(
        preprocessing.FunctionTransformer(step), preprocessing.StandardScaler(), linear_model.LogisticRegression()
    )
    print("pipeline", round(steps_.fit(x, y).score(x, y), 3))
    scorer = metrics.make_scorer(lambda true, guess: step(float((true == guess).mean())))
    search = model_selection.GridSearchCV(
        neighbors.KNeighborsClassifier(), {"n_neighbors": [1, 5, 9]}, scoring=scorer, cv=3
    )
    print("search", search.fit(x, y).best_params_, round(search.best_score_, 3))
    print("pairs", metrics.pairwise_distances(x[:5], metric=distance).sum().round(3))


def show(message: Any, *rest: Any) -> None:
    """Shows a warning, unless it is that scikit-learn's threads found no filters of warnings.

    Each of them saves, replaces and restores the process's filters without a lock, so it depends on the threads' turns.
    """
    if "sklearn.utils.parallel" not in str(message):
        shows(message, *rest)


shows, warnings.showwarning = warnings.showwarning, show


def fits(x: Any, y: Any) -> None:
    from joblib import parallel_backend

    with parallel_backend("threading", n_jobs=2):
        scores = model_selection.cross_val_score(Majority(), x, y, cv=4)
        print("threads", scores.round(3).tolist())
        forest = ensemble.RandomForestClassifier(8, random_state=1).fit(x, y)
        print("forest", round(forest.score(x, y), 3))
    print("clusters", cluster.KMeans(3, n_init=2, random_state=1).fit_predict(x)[[0, 60, 120]].shape)
    boosted = ensemble.HistGradientBoostingClassifier(max_iter=5, random_state=1).fit(x, y)
    print("boosted", round(boosted.score(x, y), 3), boosted.n_iter_)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        print(refused(lambda: linear_model.LogisticRegression(max_iter=1).fit(x, y)))


def errors(x: Any, y: Any) -> None:
    print(refused(lambda: svm.SVC().predict(x)))
    print(refused(lambda: svm.SVC().fit(x, y[:-1])))
    print(refused(lambda: svm.SVC(C=-1).fit(x, y)))
    print(refused(lambda: linear_model.LinearRegression().fit([[np.nan]], [1])))
    print(refused(lambda: preprocessing.OneHotEncoder().fit([["a"]]).transform([["b"]])))
    print(refused(lambda: model_selection.cross_val_score(Majority(fails=True), x, y, error_score="raise")))
    print(refused(lambda: neighbors.KDTree(x).query(x[0], k=3)))
    print(refused(lambda: metrics.roc_auc_score([1, 1], [0.5, 0.5], labels=[0, 0])))


def main() -> int:
    x, y = datasets.load_iris(return_X_y=True)
    callbacks(x, y)
    fits(x, y)
    errors(x, y)
    print("steps", steps)
    return 11


if __name__ == "__main__":
    sys.exit(main())
