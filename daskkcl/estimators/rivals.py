"""Rival-penalised, cooperative and suppressed competitive learning: the methods that CPCL is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..rules.coordinates import Coordinates
from ..rules.sequential import SequentialRule
from ..schedules.found import total_variance
from ..schedules.setup import Setup
from .common import documented
from .seeds import SeedClusterer
from .validation import check_real

__all__ = ["CCCL", "DSRPCL", "RPCCL", "RPCL", "CoRe"]


@dataclass(eq=False, repr=False, kw_only=True)
class _Rival(SeedClusterer):
    default_map: ClassVar[str] = "identity"
    _comes_to_rest: ClassVar[bool] = False


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class RPCL(_Rival):
    """Rival penalised competitive learning: the second winner of every row is pushed away from it.

    Winners are weighted by how often they have won. Seeds that are not needed are driven away from the rows; those
    that are nearest to no row in the end are left out, and the number of the others is the number of clusters.

    Parameters
    ----------
    {seeds}
    rival_share : float, default 0.04
        The rival's rate as a share of `eta`. The result depends much on it.

    Attributes
    ----------
    {seed_attributes}

    Notes
    -----
    Xu, Krzyżak and Oja, "Rival penalized competitive learning for clustering analysis, RBF net, and curve detection"
    (doi:10.1109/72.238318); L. Xu, Scholarpedia 2(8):1810 (doi:10.4249/scholarpedia.1810). Rates vary in the
    literature; the defaults, 0.05 and a share of 0.04, are common ones. The seeds do not come to rest.

    Examples
    --------
    {blobs}
    >>> daskkcl.RPCL(4, random_state=0).fit(X).cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "rpcl"

    eta: float = 0.05
    max_epochs: int = 100
    rival_share: float = 0.04

    def _rule(self) -> SequentialRule:
        return SequentialRule("rival_penalised", (check_real("rival_share", self.rival_share, 0, 1, closed=True),))


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class RPCCL(_Rival):
    """Rival penalisation controlled competitive learning: the nearer the rival to the winner, the more it retreats.

    As `RPCL`, without its rate for rivals: the second winner retreats from a row by the learning rate times
    ``min(|m_c - m_r|, |x - m_c|) / |m_c - m_r|``, c the winner and r the rival.

    Parameters
    ----------
    {seeds}

    Attributes
    ----------
    {seed_attributes}

    Notes
    -----
    Cheung, "On rival penalization controlled competitive learning for clustering with automatic cluster number
    selection" (IEEE Transactions on Knowledge and Data Engineering 17, 2005, pages 1583-1588). No public source that we
    found prints the formula; this one gives all rows of Table 1 (Seeds) and Table 3 (WDBC) of
    doi:10.1016/j.patcog.2014.03.010 within 0.03 of their partition quality, and one of three of Table 2 (Wine; the
    others are off by 0.03 and 0.07); other readings do not. The seeds do not come to rest. Good with few seeds too
    many.

    Examples
    --------
    {blobs}
    >>> daskkcl.RPCCL(4, random_state=0).fit(X).cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "rpccl"

    max_epochs: int = 500

    def _rule(self) -> SequentialRule:
        return SequentialRule("rival_controlled")


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class CCCL(_Rival):
    """Cooperation controlled competitive learning: seeds near the winner follow it, the farther from the row the less.

    All seeds within the winner's distance from the winner move towards the row by the learning rate times
    ``(d_c / max(d_c, d_u))^phi``, the winner's distance from the row over theirs. Seeds end on cluster centres, several
    on one, and those that coincide are merged.

    Parameters
    ----------
    {seeds}
    phi : float, default 0.5
        Exponent of the ratio; 0 lets all move alike (competitive and cooperative learning, CCL).

    Attributes
    ----------
    {seed_attributes}

    Notes
    -----
    Li, Pei, Wang and Cheung, "Cooperation controlled competitive learning approach for data clustering"
    (Computational Intelligence and Security 2008, pages 24-29). What phi is to the ratio is not settled by a public
    source. At phi = 1 it must be CPCL
    without penalties (doi:10.1016/j.patcog.2014.03.010, section 2.3); of the forms that are, the exponent takes
    71, 203 and 404 epochs with 4, 10 and 20 seeds on the Seeds data, where 77, 190 and 369 were published, and a factor
    or a smaller territory take twice that and merge nothing.

    Examples
    --------
    {blobs}
    >>> daskkcl.CCCL(5, random_state=2).fit(X).cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "cccl"
    _comes_to_rest: ClassVar[bool] = True

    tol: float = 1e-6
    phi: float = 0.5

    def _rule(self) -> SequentialRule:
        return SequentialRule("cooperation_controlled", (check_real("phi", self.phi, 0, closed=True),))


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class DSRPCL(_Rival):
    """Distance-sensitive rival penalised competitive learning: all seeds but the nearest retreat, the near ones more.

    The nearest seed moves towards the row by the learning rate; every other one away from it by the rate times
    ``d^(-P - 2)``, d its distance from the row. That is gradient descent on the sum of squared distances to the
    nearest seeds and of ``d^-P`` to the others.

    Parameters
    ----------
    {seeds}
    power : float, default 0.2
        P. The smaller, the farther the push reaches.

    Attributes
    ----------
    {seed_attributes}

    Notes
    -----
    Ma and Wang, "A cost-function approach to rival penalized competitive learning (RPCL)" (IEEE Transactions on
    Systems, Man, and Cybernetics B 36, 2006, pages 722-737), compared in doi:10.1016/j.patcog.2014.03.010. The
    constant before the second part of the cost is not settled by a public source; here it makes the rate of winner
    and losers the same. A push takes a seed at most by the rate times its distance. P is not scale-free: give the
    features unit variance.

    Examples
    --------
    {blobs}
    >>> daskkcl.DSRPCL(5, random_state=0).fit(X).cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "dsrpcl"

    max_epochs: int = 500
    power: float = 0.2

    def _rule(self) -> SequentialRule:
        return SequentialRule("distance_sensitive", (check_real("power", self.power, 0),))


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class CoRe(_Rival):
    """Competitive repetition-suppression clustering: units that answer a row well learn it, the others unlearn it.

    A unit answers a row by ``phi = exp(-d^2 / 2 sigma^2)``, with a width of its own. Units that answer above a
    threshold, and the best one, learn: they move towards the row by ``eta phi``, and widen. The others are
    suppressed: they retreat by ``eta min(1, (phi RS)^2)``, and narrow, where RS is the mean answer of the winners, each
    weighted by how often it has won.

    Parameters
    ----------
    {seeds}
    threshold : float, default 0.9
        Answers above it win.
    suppression : float, default 30
        What RS is multiplied by: how much repetition suppresses.
    width : float or "auto", default "auto"
        First width of all units; ``"auto"`` is half the root of the total variance of a sample.
    width_rate : float, default 0
        Learning rate of widths, as a share of `eta`; 0 leaves them as they are.

    Attributes
    ----------
    {seed_attributes}

    Notes
    -----
    Bacciu and Starita, "Competitive repetition suppression (CoRe) clustering: a biologically inspired learning
    model with application to robust clustering" (IEEE Transactions on Neural Networks 19, 2008, pages 1922-1941),
    compared in doi:10.1016/j.patcog.2014.03.010. Public sources give the idea, the threshold of 0.9 and that losers
    are penalised by their suppressed answers, but not every formula. Here the relevance of a unit is its share of
    wins, the suppression has no memory of earlier rows, steps are taken relative to the squared width (so that
    rates are free of scale), and units go when they are nearest to no row, or merge.

    Examples
    --------
    {blobs}
    >>> daskkcl.CoRe(6, random_state=0).fit(X).cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "core"
    _n_extra: ClassVar[int] = 1

    eta: float = 0.01
    max_epochs: int = 100
    threshold: float = 0.9
    suppression: float = 30.0
    width: float | str = "auto"
    width_rate: float = 0.0

    def _rule(self) -> SequentialRule:
        if self.width != "auto":
            check_real("width", self.width, 0)
        return SequentialRule(
            "repetition_suppressed",
            (
                check_real("threshold", self.threshold, 0, 1),
                check_real("suppression", self.suppression, 0, closed=True),
                check_real("width_rate", self.width_rate, 0, closed=True),
                1e-12,
            ),
        )

    def _first_extra(self, setup: Setup, coordinates: Coordinates) -> Any:
        width = self.width
        if width == "auto":
            width = 0.5 * max(total_variance(setup, coordinates), 1e-24) ** 0.5
        return np.full((setup.n_clusters, 1), float(width))
