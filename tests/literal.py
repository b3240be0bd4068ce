"""The rules written out as loops, word for word from their definitions: slow, obvious, and not the engine's
code.

Tests compare the engine with these; the benchmark measures how much faster the engine is.
"""

import math

import numpy as np

FLOOR = 1e-8


def distortion(teacher, candidate):
    total = 0.0
    for f_row, g_row in zip(teacher, candidate, strict=True):
        for f, g in zip(f_row, g_row, strict=True):
            f, g = max(f, FLOOR), max(g, FLOOR)
            total += f * (math.log(f) - math.log(g))
    return total / len(teacher)


def confidences(candidate):
    return [max(row) for row in candidate]


def neg_entropies(candidate):
    return [sum(max(p, FLOOR) * math.log(max(p, FLOOR)) for p in row) for row in candidate]


def atc(scores, candidate, teacher, calibration):
    """The published sweep, threshold initialised at -inf."""
    labels = [int(np.argmax(candidate[i]) == np.argmax(teacher[i])) for i in range(calibration)]
    order = sorted(range(calibration), key=lambda i: scores[i])
    false_positive, false_negative = sum(1 for label in labels if label == 0), 0
    best, threshold = abs(false_positive - false_negative), -math.inf
    for i in order:
        if labels[i] == 0:
            false_positive -= 1
        else:
            false_negative += 1
        if abs(false_positive - false_negative) < best:
            best, threshold = abs(false_positive - false_negative), scores[i]
    return sum(score >= threshold for score in scores) / len(scores)


def doc(candidate, teacher, calibration):
    confidence = confidences(candidate)
    agree = sum(np.argmax(candidate[i]) == np.argmax(teacher[i]) for i in range(calibration)) / calibration
    return agree + sum(confidence) / len(confidence) - sum(confidence[:calibration]) / calibration


def nuclear_norm(candidate):
    n, k = candidate.shape
    return float(np.linalg.norm(np.maximum(candidate, FLOOR), "nuc")) / math.sqrt(min(n, k) * n)


def softmax_corr(candidate):
    n, k = candidate.shape
    corr = [
        [sum(max(row[a], FLOOR) * max(row[b], FLOOR) for row in candidate) / n for b in range(k)]
        for a in range(k)
    ]
    trace = sum(corr[a][a] for a in range(k))
    return trace / (math.sqrt(k) * math.sqrt(sum(value**2 for row in corr for value in row)))


def label_free(teacher, candidates, calibration):
    """Every label-free rule but optimal transport: {rule: scores}."""
    scores = {
        name: []
        for name in (
            "distortion",
            "avg-confidence",
            "entropy",
            "atc-mc",
            "atc-ne",
            "doc",
            "nuclear-norm",
            "softmax-corr",
        )
    }
    for candidate in candidates:
        confidence, negative = confidences(candidate), neg_entropies(candidate)
        scores["distortion"].append(distortion(teacher, candidate))
        scores["avg-confidence"].append(sum(confidence) / len(confidence))
        scores["entropy"].append(sum(negative) / len(negative))
        scores["atc-mc"].append(atc(confidence, candidate, teacher, calibration))
        scores["atc-ne"].append(atc(negative, candidate, teacher, calibration))
        scores["doc"].append(doc(candidate, teacher, calibration))
        scores["nuclear-norm"].append(nuclear_norm(candidate))
        scores["softmax-corr"].append(softmax_corr(candidate))
    return scores


def supervised_term(rule, p_f, p_g, y, permuted=None):
    """One example's φ: p_f, p_g are rows (K,), permuted is (p_f, y) of the example whose residual direction
    is used instead.
    """
    p_f, p_g = np.maximum(p_f, FLOOR), np.maximum(p_g, FLOOR)
    delta = p_g - p_f
    if rule in ("val-ce", "ce-combo"):
        return -math.log(p_g[y])
    if rule == "val-acc":
        return -float(int(np.argmax(p_g)) == y)
    if rule == "alignment":
        return -(float(delta[y]) - float(delta @ p_f))
    if rule == "teacher-component":
        return float(delta @ p_f)
    other_f, other_y = np.maximum(permuted[0], FLOOR), permuted[1]
    return -(float(delta[other_y]) - float(delta @ other_f))


def algorithm1(anchor, term, loss, grid):
    """Coefficient search by explicit loops over coefficients, folds and candidates. Returns (coefficient, cv
    losses).
    """
    n_candidates, n = len(term), len(term[0])
    folds = np.array_split(np.arange(n), 5 if n >= 25 else min(n, 10))
    cv_losses = []
    for c in grid:
        fold_losses = []
        for fold in folds:
            held = set(fold.tolist())
            scores = []
            for m in range(n_candidates):
                kept = [term[m][i] for i in range(n) if i not in held]
                scores.append(anchor[m] + c * float(np.mean(kept)))
            pick = scores.index(min(scores))
            fold_losses.append(float(np.mean([loss[pick][i] for i in fold])))
        cv_losses.append(float(np.mean(fold_losses)))
    return grid[cv_losses.index(min(cv_losses))], cv_losses
