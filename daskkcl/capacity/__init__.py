"""What a run will cost, before it is run: the memory of its real plan, and time and traffic computed from it."""

from .forecast import Forecast, StageForecast
from .model import forecast_run
from .rates import Rates, cluster_rates

__all__ = ["Forecast", "Rates", "StageForecast", "cluster_rates", "forecast_run"]
