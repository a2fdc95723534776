;; The smallest operator of the packed world: every record passes, of which it is given the fields that its configuration
;; names, as a hexadecimal digit of their bits. `pass.wasm` is this text as a binary (a test compares them); to write it
;; again: wasm-tools parse pass.wat -o pass.wasm
(component
  (core module $code
    (memory (export "memory") 17)
    (global $free (mut i32) (i32.const 4096))

    (data (i32.const 64) "pass")
    (data (i32.const 72) "1.0.0")
    (data (i32.const 256)
      "{\"type\":\"object\",\"properties\":{\"reads\":{\"type\":\"string\",\"pattern\":\"^[0-9a-f]$\"}},"
      "\"required\":[\"reads\"],\"additionalProperties\":false}")
    ;; A result that is well: name, version, config-schema, and nothing else.
    (data (i32.const 128)
      "\00\00\00\00\40\00\00\00\04\00\00\00\48\00\00\00\05\00\00\00\00\01\00\00\83\00\00\00")

    ;; A bump allocator that starts anew with each call; it grows when the batch does not fit.
    (func $realloc (export "realloc") (param $old i32) (param $had i32) (param $align i32) (param $size i32)
      (result i32) (local $at i32) (local $end i32)
      (local.set $at (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -16)))
      (local.set $end (i32.add (local.get $at) (local.get $size)))
      (if (i32.gt_u (local.get $end) (i32.shl (memory.size) (i32.const 16)))
        (then
          (if (i32.eq
                (memory.grow
                  (i32.add (i32.const 1)
                    (i32.shr_u
                      (i32.sub (local.get $end) (i32.shl (memory.size) (i32.const 16)))
                      (i32.const 16))))
                (i32.const -1))
            (then (unreachable)))))
      (global.set $free (local.get $end))
      (local.get $at))

    ;; The digit stands in {"reads":"f"}.
    (func (export "describe") (param $config i32) (param $length i32) (result i32) (local $digit i32)
      (local.set $digit (i32.load8_u offset=10 (local.get $config)))
      (i32.store8 (i32.const 156)
        (i32.sub (local.get $digit)
          (select (i32.const 87) (i32.const 48) (i32.ge_u (local.get $digit) (i32.const 97)))))
      (global.set $free (i32.const 4096))
      (i32.const 128))

    (func (export "init") (param i32 i32) (result i32)
      (global.set $free (i32.const 4096))
      (i32.store8 (i32.const 192) (i32.const 0))
      (i32.const 192))

    ;; The answer: a header of 40 bytes, and an action for each record.
    (func (export "process") (param $batch i32) (param $length i32) (result i32)
      (local $count i32) (local $at i32) (local $total i32)
      (local.set $count (i32.load offset=16 (local.get $batch)))
      (local.set $total (i32.add (i32.const 40) (local.get $count)))
      (local.set $at (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (local.get $total)))
      (i32.store (local.get $at) (i32.const 0x024f4754))
      (i32.store offset=4 (local.get $at) (local.get $total))
      (i32.store offset=8 (local.get $at) (i32.const 40))
      (i32.store offset=12 (local.get $at) (i32.const 0))
      (i32.store offset=16 (local.get $at) (local.get $count))
      (i32.store offset=20 (local.get $at) (i32.const 40))
      (i32.store offset=24 (local.get $at) (local.get $total))
      (i64.store offset=28 (local.get $at) (i64.const 0))
      (i32.store offset=36 (local.get $at) (i32.const 0))
      (memory.fill (i32.add (local.get $at) (i32.const 40)) (i32.const 0) (local.get $count))
      (global.set $free (i32.const 4096))
      (i32.store8 (i32.const 192) (i32.const 0))
      (i32.store (i32.const 196) (local.get $at))
      (i32.store (i32.const 200) (local.get $total))
      (i32.const 192))
  )
  (core instance $code (instantiate $code))

  (type $class (enum "transient" "permanent" "bad-configuration"))
  (type $failure (record (field "class" $class) (field "code" string) (field "message" string)))
  (type $fields (flags "key" "value" "headers" "attributes"))
  (type $kind (enum "counter" "gauge" "histogram"))
  (type $metric (record
    (field "name" string) (field "kind" $kind) (field "help" string) (field "labels" (list string))
    (field "bounds" (list f64))))
  (type $extension (record (field "name" string) (field "json" string)))
  (type $description (record
    (field "name" string) (field "version" string) (field "config-schema" string) (field "reads" $fields)
    (field "outputs" (list string)) (field "metrics" (list $metric)) (field "handlers" (list string))
    (field "extensions" (list $extension))))
  (func $describe (param "config" string) (result (result $description (error $failure)))
    (canon lift (core func $code "describe") (memory (core memory $code "memory")) (realloc (core func $code "realloc"))))
  (func $init (param "config" string) (result (result (error $failure)))
    (canon lift (core func $code "init") (memory (core memory $code "memory")) (realloc (core func $code "realloc"))))
  (func $process (param "batch" (list u8)) (result (result (list u8) (error $failure)))
    (canon lift (core func $code "process") (memory (core memory $code "memory")) (realloc (core func $code "realloc"))))

  (component $interface
    (type $a-class (enum "transient" "permanent" "bad-configuration"))
    (import "failure-class" (type $class (eq $a-class)))
    (type $a-failure (record (field "class" $class) (field "code" string) (field "message" string)))
    (import "failure" (type $failure (eq $a-failure)))
    (type $some-fields (flags "key" "value" "headers" "attributes"))
    (import "fields" (type $fields (eq $some-fields)))
    (type $a-kind (enum "counter" "gauge" "histogram"))
    (import "metric-kind" (type $kind (eq $a-kind)))
    (type $a-metric (record
      (field "name" string) (field "kind" $kind) (field "help" string) (field "labels" (list string))
      (field "bounds" (list f64))))
    (import "metric" (type $metric (eq $a-metric)))
    (type $an-extension (record (field "name" string) (field "json" string)))
    (import "extension" (type $extension (eq $an-extension)))
    (type $a-description (record
      (field "name" string) (field "version" string) (field "config-schema" string) (field "reads" $fields)
      (field "outputs" (list string)) (field "metrics" (list $metric)) (field "handlers" (list string))
      (field "extensions" (list $extension))))
    (import "description" (type $description (eq $a-description)))
    (import "describe" (func $describe (param "config" string) (result (result $description (error $failure)))))
    (import "init" (func $init (param "config" string) (result (result (error $failure)))))
    (import "process" (func $process (param "batch" (list u8)) (result (result (list u8) (error $failure)))))
    (export $out-class "failure-class" (type $class))
    (type $b-failure (record (field "class" $out-class) (field "code" string) (field "message" string)))
    (export $out-failure "failure" (type $b-failure))
    (export $out-fields "fields" (type $fields))
    (export $out-kind "metric-kind" (type $kind))
    (type $b-metric (record
      (field "name" string) (field "kind" $out-kind) (field "help" string) (field "labels" (list string))
      (field "bounds" (list f64))))
    (export $out-metric "metric" (type $b-metric))
    (export $out-extension "extension" (type $extension))
    (type $b-description (record
      (field "name" string) (field "version" string) (field "config-schema" string) (field "reads" $out-fields)
      (field "outputs" (list string)) (field "metrics" (list $out-metric)) (field "handlers" (list string))
      (field "extensions" (list $out-extension))))
    (export $out-description "description" (type $b-description))
    (export "describe" (func $describe)
      (func (param "config" string) (result (result $out-description (error $out-failure)))))
    (export "init" (func $init) (func (param "config" string) (result (result (error $out-failure)))))
    (export "process" (func $process) (func (param "batch" (list u8)) (result (result (list u8) (error $out-failure))))))
  (instance $operator (instantiate $interface
    (with "failure-class" (type $class))
    (with "failure" (type $failure))
    (with "fields" (type $fields))
    (with "metric-kind" (type $kind))
    (with "metric" (type $metric))
    (with "extension" (type $extension))
    (with "description" (type $description))
    (with "describe" (func $describe))
    (with "init" (func $init))
    (with "process" (func $process))))
  (export "tidegate:operator/packed@1.0.0" (instance $operator))
)
