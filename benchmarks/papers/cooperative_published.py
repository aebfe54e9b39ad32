"""What Jia, Cheung and Liu published (doi:10.1016/j.patcog.2014.03.010), of the sets that are here."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMPETITIVE", "KERNEL", "Published"]


class Published(NamedTuple):
    """A row of a table: means of 20 trials, and the standard deviation of the number of clusters."""

    clusters: float
    deviation: float
    pq: float
    ri: float
    seconds: float | None = None
    epochs: float | None = None


#: set: number of seeds: method (Tables 1-3, 7, 8)
COMPETITIVE: dict[str, dict[int, dict[str, Published]]] = {
    "seeds": {
        4: {
            "dsrpcl": Published(4, 0, 0.6623, 0.8628, 0.36, 94.85),
            "rpccl": Published(2.95, 0.22, 0.6849, 0.8499, 0.91, 100),
            "core": Published(2.1, 0.31, 0.5794, 0.7593, 1.04, 19.5),
            "cccl": Published(2.85, 0.81, 0.6273, 0.8095, 0.71, 77.35),
            "cpcl": Published(3.25, 0.55, 0.6922, 0.8635, 0.56, 49.5),
        },
        10: {
            "dsrpcl": Published(8.25, 1.12, 0.3146, 0.7673, 1.61, 187.2),
            "rpccl": Published(8.85, 1.18, 0.3718, 0.7763, 9.06, 500),
            "core": Published(2.45, 0.51, 0.6385, 0.8028, 2.13, 28.75),
            "cccl": Published(3.5, 0.82, 0.6536, 0.8442, 3.68, 189.5),
            "cpcl": Published(3.25, 0.58, 0.7302, 0.884, 2.55, 110.9),
        },
        20: {
            "dsrpcl": Published(17.05, 1.57, 0.202, 0.7311, 4.87, 296.15),
            "rpccl": Published(18.3, 1.03, 0.1783, 0.72, 33.72, 1000),
            "core": Published(2.7, 0.47, 0.6738, 0.8342, 3.69, 39.7),
            "cccl": Published(3.7, 0.92, 0.6437, 0.8329, 13.71, 368.5),
            "cpcl": Published(3.1, 0.45, 0.7332, 0.8771, 7.33, 168.3),
        },
    },
    "wine": {
        4: {
            "dsrpcl": Published(4, 0, 0.7502, 0.8977, 0.46, 125.35),
            "rpccl": Published(2.8, 0.52, 0.6686, 0.8147, 0.91, 100),
            "core": Published(2.3, 0.65, 0.5023, 0.7082, 1.52, 26.5),
            "cccl": Published(3.45, 0.6, 0.552, 0.7567, 0.44, 55.15),
            "cpcl": Published(3.15, 0.58, 0.6917, 0.8332, 0.65, 57.85),
        },
        10: {
            "dsrpcl": Published(8.05, 0.99, 0.4029, 0.7941, 1.73, 235.5),
            "rpccl": Published(7.8, 1.51, 0.5674, 0.8357, 9.41, 500),
            "core": Published(2.6, 0.55, 0.6431, 0.8156, 3.14, 39.2),
            "cccl": Published(3.85, 1.18, 0.5224, 0.7602, 1.61, 94.35),
            "cpcl": Published(3.25, 0.63, 0.6382, 0.8049, 2.15, 93.26),
        },
        20: {
            "dsrpcl": Published(20, 0, 0.2091, 0.7276, 5.36, 324.1),
            "rpccl": Published(18.65, 0.93, 0.207, 0.7238, 35.15, 1000),
            "core": Published(2.95, 0.51, 0.6938, 0.8503, 3.59, 39.5),
            "cccl": Published(4.25, 1.21, 0.4927, 0.7535, 6.8, 176.55),
            "cpcl": Published(3.25, 0.88, 0.6316, 0.8196, 6.43, 145.65),
        },
    },
    "wdbc": {
        3: {
            "dsrpcl": Published(3, 0, 0.6248, 0.7553, 0.47, 55.5),
            "rpccl": Published(1.85, 0.36, 0.4781, 0.5553, 2.11, 100),
            "core": Published(2.15, 0.93, 0.2664, 0.5964, 8.03, 26.2),
            "cccl": Published(2.15, 0.36, 0.7573, 0.8321, 0.72, 23.5),
            "cpcl": Published(2, 0, 0.7725, 0.8415, 0.69, 20.4),
        },
        10: {
            "dsrpcl": Published(9.7, 0.47, 0.2111, 0.5774, 5.46, 225.8),
            "rpccl": Published(5.9, 2.05, 0.5136, 0.6984, 26.29, 500),
            "core": Published(2.6, 1.31, 0.2931, 0.5719, 23.51, 61.2),
            "cccl": Published(1.95, 0.22, 0.7215, 0.8177, 4.71, 47.15),
            "cpcl": Published(2, 0, 0.7551, 0.8298, 2.63, 39.35),
        },
        20: {
            "dsrpcl": Published(19.95, 0.22, 0.1228, 0.5311, 20.99, 457.3),
            "rpccl": Published(15.25, 1.86, 0.1925, 0.5629, 96.67, 1000),
            "core": Published(3.1, 0.91, 0.329, 0.6126, 49.51, 107.15),
            "cccl": Published(1.95, 0.22, 0.7267, 0.8211, 15.62, 82.05),
            "cpcl": Published(2.05, 0.22, 0.7582, 0.8306, 7.97, 63.7),
        },
    },
    "mfeat": {
        20: {
            "dsrpcl": Published(20, 0, 0.2021, 0.8765, 13.29, 56.25),
            "rpccl": Published(14.75, 0.21, 0.2116, 0.8748, 372.71, 500),
            "core": Published(6.25, 1.56, 0.1528, 0.7864, 66545.3, 40.6),
            "cccl": Published(7, 0.54, 0.2251, 0.8476, 197.69, 208.55),
            "cpcl": Published(8.2, 0.71, 0.2577, 0.8624, 203.12, 201.5),
        },
    },
    "mnist, 5,000 rows": {
        20: {
            "dsrpcl": Published(20, 0, 0.1834, 0.8969, 246.87, 109.25),
            "rpccl": Published(12.85, 1.42, 0.2175, 0.8245, 1004.16, 500),
            "core": Published(7.25, 1.83, 0.1694, 0.7835, 267285.36, 52.65),
            "cccl": Published(4.7, 2.36, 0.1087, 0.7552, 362.71, 158.25),
            "cpcl": Published(8.75, 1.03, 0.2408, 0.8258, 416.79, 176.8),
        },
    },
}

#: set: number of clusters or seeds: method (Tables 10 and 11)
KERNEL: dict[str, dict[int, dict[str, Published]]] = {
    "usps 4 and 9": {
        2: {
            "kkmeans": Published(2, 0, 0.4867, 0.6561),
            "kcpcl": Published(2, 0, 0.4779, 0.6485),
        },
        5: {
            "kkmeans": Published(5, 0, 0.2223, 0.5795),
            "kcpcl": Published(2.35, 0.63, 0.4463, 0.6329),
            "cpcl": Published(1.25, 0.37, 0.1072, 0.5469),
        },
    },
    "pendigits, test part": {
        10: {
            "kkmeans": Published(9.8, 0.52, 0.4504, 0.9122),
            "kcpcl": Published(9.65, 0.42, 0.4438, 0.9015),
        },
        20: {
            "kkmeans": Published(18.3, 0.8, 0.4344, 0.9347),
            "kcpcl": Published(11.7, 1.06, 0.4556, 0.907),
            "cpcl": Published(7.35, 1.36, 0.3452, 0.8537),
        },
    },
    "mfeat": {
        10: {
            "kkmeans": Published(7.2, 1.15, 0.2805, 0.8621),
            "kcpcl": Published(9.5, 0.44, 0.3121, 0.8875),
        },
        20: {
            "kkmeans": Published(13.8, 1.34, 0.2863, 0.8882),
            "kcpcl": Published(10.7, 0.85, 0.3316, 0.8965),
            "cpcl": Published(8.2, 0.71, 0.2577, 0.8624),
        },
    },
}
