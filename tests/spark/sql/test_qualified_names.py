"""Names of tables with their databases, before columns in conditions and values. No JVM."""

from __future__ import annotations

import pytest

from delta_ops.spark.statements.names import NamedTable, shorten_column, shorten_names

ORDERS = NamedTable(
    name=("spark_catalog", "shop", "orders"), alias="orders", columns=("id", "price", "a b")
)
PAID = NamedTable(name=("spark_catalog", "shop", "paid"), alias="paid", columns=("id",))
PATH = NamedTable(name=("delta", "/lake/orders"), alias="/lake/orders", columns=("id",))


@pytest.mark.parametrize(
    ("text", "shortened"),
    [
        ("shop.orders.id = 3", "`orders`.id = 3"),
        ("spark_catalog.shop.orders.id = 3", "`orders`.id = 3"),
        ("Shop . `orders`\n.`a b` > shop.ORDERS.price", "`orders`\n.`a b` > `orders`.price"),
        ("shop.orders.id = shop.paid.id", "`orders`.id = `paid`.id"),
        ("f(shop.orders.id, (shop.paid.id)) IN (1)", "f(`orders`.id, (`paid`.id)) IN (1)"),
        ("shop.orders.id.field[0]", "`orders`.id.field[0]"),
        ("delta.`/lake/orders`.id = 3", "`/lake/orders`.id = 3"),
    ],
)
def test_the_database_is_left_out_before_a_column(text: str, shortened: str) -> None:
    assert shorten_names(text, [ORDERS, PAID, PATH]) == shortened


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("orders.id = 3", id="no database"),
        pytest.param("other.orders.id = 3", id="another database"),
        pytest.param("x.shop.orders.id = 3", id="another catalog"),
        pytest.param("shop.orders.x = 3", id="a struct column with the name of the database"),
        pytest.param("shop.orders = 3", id="no column"),
        pytest.param("name = 'shop.orders.id'", id="a string"),
        pytest.param("name = 1 /* shop.orders.id */", id="a comment"),
        pytest.param("`shop.orders.id` = 1", id="one quoted name"),
        pytest.param("id IN (SELECT shop.orders.id FROM shop.orders)", id="a subquery"),
        pytest.param("(id IN ((SELECT 1 WHERE (shop.orders.id = 1))))", id="within a subquery"),
        pytest.param("exists(a, shop -> shop.orders.id > 1)", id="a variable of a lambda"),
        pytest.param("shop.orders.id = 'open", id="no tokens"),
    ],
)
def test_other_names_stay(text: str) -> None:
    assert shorten_names(text, [ORDERS, PAID, PATH]) == text


@pytest.mark.parametrize(
    ("column", "shortened"),
    [
        ("shop.orders.id", "id"),
        ("spark_catalog.shop.orders.new", "new"),
        ("SHOP.orders.a.`b.c`", "a.`b.c`"),
        ("orders.id", "orders.id"),
        ("other.orders.id", "other.orders.id"),
    ],
)
def test_a_column_that_gets_a_value_needs_no_column_of_the_table(
    column: str, shortened: str
) -> None:
    assert shorten_column(column, ORDERS) == shortened
