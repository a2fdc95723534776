// Configurations: schemas, defaults, and mistakes by their key.

#include "sdk_tests.h"

typedef struct rule {
    tg_bytes to;
    int64_t weight;
} rule;

typedef struct config {
    bool on;
    int64_t count, signed_count;
    double share;
    tg_bytes text, any;
    int choice;
    tg_list numbers, rules;
    const rule *rule;
    int64_t optional;
} config;

static const tg_field rule_fields[] = {
    {TG_TEXT(rule, to, "to"), .minimum = 1, .maximum = 3},
    {TG_INTEGER(rule, weight, "weight"), .fallback = "1"},
    TG_END,
};
static const tg_table rule_table = {"A rule", sizeof(rule), rule_fields};
static const char *const choices[] = {"one", "two", NULL};
static const tg_field number = {TG_ITEM(TG_KIND_INTEGER), .minimum = 0, .maximum = 9};
static const tg_field one_rule = {TG_ITEM(TG_KIND_TABLE), .table = &rule_table};
static const tg_field fields[] = {
    {TG_BOOLEAN(config, on, "on"), .help = "Whether it is \"on\""},
    {TG_INTEGER(config, count, "count"), .fallback = "3", .minimum = 1, .maximum = INT64_MAX},
    {TG_INTEGER(config, signed_count, "signed"), .fallback = "-1", .minimum = -5, .maximum = 0},
    {TG_NUMBER(config, share, "share"), .fallback = "0.5", .least = 0, .most = 1},
    {TG_TEXT(config, text, "text"), .fallback = "\"\\u00e4\""},
    {TG_ANY(config, any, "any"), .fallback = "{\"a\": [1]}"},
    {TG_CHOICE(config, choice, "choice"), .fallback = "\"two\"", .choices = choices},
    {TG_LIST(config, numbers, "numbers"), .fallback = "[]", .maximum = 3, .item = &number},
    {TG_LIST(config, rules, "rules"), .fallback = "[]", .item = &one_rule},
    {TG_TABLE(config, rule, "rule"), .optional = true, .table = &rule_table},
    {TG_INTEGER(config, optional, "optional"), .optional = true},
    TG_END,
};
static const tg_table table = {"A configuration", sizeof(config), fields};

static config settings;

static void a_configuration_has_to_be_written_somewhere(void) {
    TG_EXPECT(!configure(&table, NULL, "{\"on\": true}"));
    TG_EXPECT_TEXT(tg_test_failure(), "the operator has .config and no .settings, where it is written");
}

static void the_struct_is_filled(void) {
    TG_EXPECT(configure(&table, &settings, "{\"on\": true}"));
    TG_EXPECT(settings.on && settings.count == 3 && settings.signed_count == -1 && settings.share == 0.5);
    TG_EXPECT_TEXT(settings.text, "\xc3\xa4");
    TG_EXPECT_TEXT(settings.any, "{\"a\": [1]}");
    TG_EXPECT(settings.choice == 1 && settings.numbers.count == 0 && !settings.rule && settings.optional == 0);
    TG_EXPECT(configure(&table, &settings,
                        "{\"on\":false,\"numbers\":[1,2,9],\"rules\":[{\"to\":\"a\"},{\"to\":\"b\",\"weight\":7}],"
                        "\"rule\":{\"to\":\"c\"},\"any\":null,\"optional\":5}"));
    const int64_t *numbers = settings.numbers.items;
    const rule *rules = settings.rules.items;
    TG_EXPECT(settings.numbers.count == 3 && numbers[2] == 9 && settings.optional == 5);
    TG_EXPECT(settings.rules.count == 2 && rules[0].weight == 1 && rules[1].weight == 7);
    TG_EXPECT_TEXT(rules[1].to, "b");
    TG_EXPECT_TEXT(settings.rule->to, "c");
    TG_EXPECT_TEXT(settings.any, "null");
}

static void is_refused(const char *text, const char *message) {
    TG_EXPECT(!configure(&table, &settings, text));
    TG_EXPECT_TEXT(tg_test_failure(), message);
    TG_EXPECT(tg_test_failure_class() == TG_BAD_CONFIGURATION);
}

static void mistakes_name_key_value_and_what_would_be_right(void) {
    is_refused("{", "config is not JSON: the text ends too early at byte 1");
    is_refused("[]", "config is [], expected a table");
    is_refused("{}", "config key `on` is missing");
    is_refused("{\"on\":1}", "config key `on` is 1, expected true or false");
    is_refused("{\"on\":true,\"on\":true}", "config key `on` is there twice");
    is_refused("{\"on\":true,\"count\":0}", "config key `count` is 0, expected at least 1");
    is_refused("{\"on\":true,\"signed\":1}", "config key `signed` is 1, expected at most 0");
    is_refused("{\"on\":true,\"count\":1.5}", "config key `count` is 1.5, expected a whole number");
    is_refused("{\"on\":true,\"share\":1.5}", "config key `share` is 1.5, expected at most 1");
    is_refused("{\"on\":true,\"share\":\"1\"}", "config key `share` is \"1\", expected a number");
    is_refused("{\"on\":true,\"choice\":\"three\"}",
               "config key `choice` is \"three\", expected one of \"one\", \"two\"");
    is_refused("{\"on\":true,\"numbers\":[1,2,3,4]}", "config key `numbers` has 4 entries, expected at most 3");
    is_refused("{\"on\":true,\"numbers\":[1,10]}", "config key `numbers[1]` is 10, expected at most 9");
    is_refused("{\"on\":true,\"rules\":[{\"to\":\"a\"},{}]}", "config key `rules[1].to` is missing");
    is_refused("{\"on\":true,\"rule\":{\"to\":\"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\"}}",
               "config key `rule.to` has 4 characters, expected at most 3");
    is_refused("{\"on\":true,\"rule\":{\"too\":1}}", "config key `rule.too` is unknown, expected `to`, `weight`");
}

static void a_wrong_default_is_shown_as_one(void) {
    static const tg_field wrong[] = {{TG_INTEGER(config, count, "count"), .fallback = "0", .minimum = 1}, TG_END};
    static const tg_table wrong_table = {NULL, sizeof(config), wrong};
    TG_EXPECT(!configure(&wrong_table, &settings, "{}"));
    TG_EXPECT_TEXT(tg_test_failure(), "config key `count` is 0, expected at least 1 (this is its default)");
}

static void an_operator_without_configuration_takes_none(void) {
    TG_EXPECT(configure(NULL, NULL, "{}") && configure(NULL, NULL, "") && configure(NULL, NULL, " null "));
    TG_EXPECT(!configure(NULL, NULL, "{\"a\":1}"));
    TG_EXPECT_TEXT(tg_test_failure(), "config key `a` is unknown, expected no key at all");
}

static void the_schema_says_the_same(void) {
    tg_bytes schema = tg_schema(&table);
    tg_json json, properties;
    uint32_t at;
    TG_EXPECT(!tg_json_read(schema, &json, &at));
    properties = tg_json_member(json, "properties");
    TG_EXPECT_TEXT(tg_json_source(tg_json_member(json, "required")), "[\"on\"]");
    TG_EXPECT_TEXT(tg_json_source(tg_json_member(json, "additionalProperties")), "false");
    static const struct {
        const char *key, *schema;
    } expected[] = {
        {"on", "{\"type\":\"boolean\",\"description\":\"Whether it is \\\"on\\\"\"}"},
        {"count", "{\"type\":\"integer\",\"minimum\":1,\"default\":3}"},
        {"signed", "{\"type\":\"integer\",\"minimum\":-5,\"maximum\":0,\"default\":-1}"},
        {"share", "{\"type\":\"number\",\"minimum\":0,\"maximum\":1,\"default\":0.5}"},
        {"choice", "{\"enum\":[\"one\",\"two\"],\"default\":\"two\"}"},
        {"numbers", "{\"type\":\"array\",\"minItems\":0,\"maxItems\":3,\"items\":{\"type\":\"integer\",\"minimum\":0,"
                    "\"maximum\":9},\"default\":[]}"},
        {"rule",
         "{\"type\":\"object\",\"properties\":{\"to\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":3},"
         "\"weight\":{\"type\":\"integer\",\"default\":1}},\"required\":[\"to\"],\"additionalProperties\":false,"
         "\"description\":\"A rule\"}"},
    };
    for (size_t key = 0; key < sizeof expected / sizeof *expected; key++) {
        TG_EXPECT_TEXT(tg_json_source(tg_json_member(properties, expected[key].key)), expected[key].schema);
    }
}

void test_config(void) {
    a_configuration_has_to_be_written_somewhere();
    the_struct_is_filled();
    mistakes_name_key_value_and_what_would_be_right();
    a_wrong_default_is_shown_as_one();
    an_operator_without_configuration_takes_none();
    the_schema_says_the_same();
}
