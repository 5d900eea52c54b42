"""Keys of found tables: their paths, as far as Dagster allows."""

from __future__ import annotations

import dagster as dg
import pytest

from delta_ops.components.asset_keys import asset_keys
from delta_ops.components.table import DeltaTableComponent
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.dagster_versions import DOTTED_KEYS, VERSION


@pytest.mark.parametrize(
    ("paths", "keys"),
    [
        pytest.param(["sales/orders"], ["sales/orders"], id="a plain path"),
        pytest.param(["raw-events/v1"], ["raw-events/v1"], id="hyphens"),
        pytest.param(["v1.2"], ["v1.2" if VERSION >= DOTTED_KEYS else "v1_2"], id="dots"),
        pytest.param(["my table=1"], ["my_table_1"], id="characters that no name has"),
        pytest.param(["Umsätze"], ["Ums_tze"], id="letters that no name has"),
        pytest.param(["a-b", "a_b"], ["a-b", "a_b_648fa9b3"], id="two paths of one name"),
        pytest.param(["a/b", "a__b"], ["a/b", "a__b_63e5c1c4"], id="a path that looks like two"),
        pytest.param(["a_b", "a b"], ["a_b", "a_b_c8687a08"], id="a path that is another's key"),
        pytest.param(["class", "meta"], ["class_0889113e", "meta_ea3bd73e"], id="words"),
    ],
)
def test_a_key_is_as_like_the_path_as_may_be(paths: list[str], keys: list[str]) -> None:
    made = asset_keys(paths)
    assert [made[path].to_user_string() for path in paths] == keys
    assert len({key.to_python_identifier() for key in made.values()}) == len(paths)
    # Dagster names what runs on them.
    specs = [dg.AssetCheckSpec("health", asset=key) for key in made.values()]
    checks = dg.multi_asset_check(name="looks", specs=specs)(list)
    dg.Definitions.validate_loadable(dg.Definitions(asset_checks=[checks]))


@pytest.mark.parametrize("key", ["my table", "class", "sales/ü"])
def test_a_key_that_somebody_gives_is_refused_if_it_makes_no_name(key: str) -> None:
    asset = dg.AssetSpec(dg.AssetKey.from_user_string(key))
    with pytest.raises(InvalidRequestError, match=rf"^asset\.key: .*{key}.*letters"):
        DeltaTableComponent(uri="/lake/t", asset=asset)
