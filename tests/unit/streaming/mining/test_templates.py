"""Templates whose variables were not substituted: no placeholder becomes a key, and dbt's tables are
known."""

from __future__ import annotations

import pytest

from streaming.mining.model import Form
from streaming.mining.templates import has_placeholder, resolve_templates
from tests.builders.keylog.mining import mined, named, reasons


TEMPLATES = [
    (
        (
            "select get_json_object(json, \"$.a\"), x from (select * from {{ source('default', 'raw_events') "
            "}}) t"
        ),
        ["$.a"],
    ),
    (
        (
            "with src as (select * from {{ source('default','raw_events') }}), fin as (select "
            "json:user.id::string as uid from src) select * from fin"
        ),
        ["$.user.id"],
    ),
    (
        (
            "select json:user.id::string as uid from {{ ref('raw_events') }} where json:type = 'x' qualify "
            "row_number() over (partition by json:id order by ts)=1"
        ),
        ["$.id", "$.type", "$.user.id"],
    ),
    (
        "select * from raw_events lateral view json_tuple(json, 'a', '{{ k }}') t as a, b",
        ["$.a", "variable", "whole-document"],
    ),
    ("select get_json_object(json, '$.a.b') from raw_events -- {{ x }}", ["$.a.b"]),
    ("select get_json_object(json, '$.{{ key }}') from raw_events", ["variable"]),
    ("select get_json_object(json, '{{ path }}') from raw_events", ["variable"]),
    ("select get_json_object(json, '$.{key}') from raw_events", ["variable"]),
    ("select get_json_object(json, '$.%s') from raw_events", ["variable"]),
    ("select get_json_object(json, '%s') from raw_events", ["variable"]),
    ("select get_json_object(json, '$.$key') from raw_events", ["variable"]),
    ("select get_json_object(json, '$.%(key)s') from raw_events", ["variable"]),
    ("select get_json_object(json, {{ path }}) from raw_events", ["variable"]),
    ("select get_json_object(json, %s) from raw_events", ["variable"]),
    ("select get_json_object(json, '$.a') from {{ source('default','raw_events') }}", ["$.a"]),
    ("select get_json_object(json, '$.a') from {{ ref('raw_events') }}", ["$.a"]),
    ("select get_json_object(json, '$.a') from {{ ref(\"raw_events\") }} e where dt = '{{ ds }}'", ["$.a"]),
    (
        (
            "{{ config(materialized='table') }}\n\nselect get_json_object(json, '$.a') from {{ "
            "source('web','clicks') }} c"
        ),
        [],
    ),
    (
        (
            "{{ config(materialized='table') }}\n\nselect get_json_object(doc, '$.a') from {{ "
            "source('web','clicks') }} c"
        ),
        ["web.clicks $.a"],
    ),
    (
        (
            "{% set keys = ['a'] %}select {% for k in keys %} get_json_object(json, '$.{{ k }}') {% endfor "
            "%} from {{ source('default','raw_events') }} {# c #}"
        ),
        ["variable"],
    ),
    ("select get_json_object(json, '$.a') from ${db}.raw_events", ["$.a"]),
    ("select get_json_object(json, '$.a') from {{ var('db') }}.raw_events", ["$.a"]),
    ("select get_json_object(json, '$.#{key}') from raw_events", ["variable"]),
    ("select get_json_object(json, '$.@key@') from raw_events", ["variable"]),
    ("select get_json_object(json, '$.<%= key %>') from raw_events", ["variable"]),
    ("select get_json_object(json, '$.<key>') from raw_events", ["variable"]),
    ("select json:{{ key }} from raw_events", ["variable"]),
    ("select json:$key from raw_events", ["variable"]),
    ("select json_tuple(json, '{{ a }}', 'b') as (x,y) from raw_events", ["$.b", "variable"]),
    ("select {{ json_get('json', 'a') }} from raw_events", ["whole-document"]),
    (
        (
            "select {{ dbt_utils.star(ref('x')) }}, get_json_object(json,'$.a') from {{ this }} t join {{ "
            "ref('raw_events') }}"
        ),
        ["$.a"],
    ),
    (
        (
            "{# get_json_object(json,'$.no') #} select 1, get_json_object(json,'$.a') from {{ ref('pkg', "
            "'raw_events') }}"
        ),
        ["$.a"],
    ),
    ("select get_json_object(json,'$.a') from {{ref('raw_events', v=2)}}", ["$.a"]),
    (
        (
            "select get_json_object(json,'$.a') from {{ source('default', 'raw_events') }} where dt >= '{{ "
            'var("start") }}\' {% if is_incremental() %} and x > (select max(x) from {{ this }}) {% endif %}'
        ),
        ["$.a"],
    ),
    ("select get_json_object(json,'$.a') from {{ params.db }}.raw_events where dt='{{ ds }}'", ["$.a"]),
    (
        (
            "select {% for k in ['a','b'] %} get_json_object(json,'$.{{ k }}') as {{ k }}{% if not loop.last "
            "%},{% endif %} {% endfor %} from {{ ref('raw_events') }}"
        ),
        ["variable"],
    ),
    ("select get_json_object(json,'$.a') from raw_events where 1=1 [[and x = {{x}}]]", ["$.a"]),
]


def keys_and_reasons(text: str, form: Form = Form.SQL) -> list[str]:
    found = mined(text, form=form)
    return sorted([*named(found), *reasons(found)])


@pytest.mark.parametrize(("text", "expected"), TEMPLATES)
def test_a_template_requests_the_keys_that_are_written_out(text: str, expected: list[str]) -> None:
    assert keys_and_reasons(text) == sorted(expected)


@pytest.mark.parametrize(
    "key",
    ["$.{key}", "$.%s", "$.$key", "$.{{ key }}", "$.${key}", "$.%(key)s", "$['{key}']", "{path}", "$path"],
)
@pytest.mark.parametrize("text", ["get_json_object(json, '{}')", "json ->> '{}'", "json_extract(json, '{}')"])
def test_a_placeholder_in_a_path_is_a_variable_in_every_function(text: str, key: str) -> None:
    statement = f"select {text.replace('{}', key.replace(chr(39), chr(39) * 2))} from raw_events"
    assert named(mined(statement)) == []
    assert reasons(mined(statement)), "it is counted"


@pytest.mark.parametrize(
    "key",
    ["$.@timestamp", "$._id", "$['$oid']", "$.a:b", "$.50%", "$.a-b", "$.#tag", "$.a&b", "$.~x", "$.x<y"],
)
def test_a_key_with_special_characters_is_a_key(key: str) -> None:
    assert not has_placeholder(key)


@pytest.mark.parametrize("part", ["{{", "{{ x ", "{%", "{#", "<%", "{{ x }} ", "{x", "@a", "%s "])
def test_a_text_of_many_unfinished_templates_is_read_in_linear_time(part: str) -> None:
    text = part * (500_000 // len(part))
    assert len(resolve_templates(text, ["json"])) > 0


def test_a_text_without_templates_stays_as_it_is() -> None:
    text = (
        "select get_json_object(json, '$.a') from raw_events where x % 2 = 1 and y like '%s' and z = "
        "'{\"a\": 1}'"
    )
    assert resolve_templates(text, ["json"]) == text
