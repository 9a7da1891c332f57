"""Individual privacy accounting: filters, odometers and per-person bounds for whole populations.

Individual budgets and individual epsilons depend on the data of the person they belong to. They
steer a run; they must not be published.
"""

from mechc.individual.accountant import Group as Group
from mechc.individual.accountant import IndividualAccountant as IndividualAccountant
from mechc.individual.accountant import summary as summary
from mechc.individual.approximate import ApproximateFilter as ApproximateFilter
from mechc.individual.approximate import gdp_upper_bound as gdp_upper_bound
from mechc.individual.filters import GDPFilter as GDPFilter
from mechc.individual.filters import GDPOdometer as GDPOdometer
from mechc.individual.filters import RenyiFilter as RenyiFilter
from mechc.individual.filters import SharedGDPFilter as SharedGDPFilter
from mechc.individual.storage import StateError as StateError
