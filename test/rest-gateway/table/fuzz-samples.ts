/** A method and a path. */
type Sample = readonly [method: string, path: string];

/** Columns of `fuzz.things`, one of each kind, and a computed field. */
export const COLUMNS =
  words(`id small big exact loose name code letter flag day moment clock span uid facts notes tags numbers
  mood spot spots during levels several words address bytes doc at cost bits short positive place_id total shout`);
export const OPERATORS =
  words(`eq neq gt gte lt lte like ilike match imatch in is isdistinct cs cd ov sl sr nxr nxl adj fts plfts
  phfts wfts eq(any) gt(all) like(all) ilike(any) match(any) fts(english) wfts(simple) not.eq not.in not.is not.like(any)`);
export const TYPES =
  words(`text int bigint numeric json jsonb xml uuid date timestamptz interval money bytea inet cidr macaddr point
  box circle path polygon line lseg bit varbit tsvector tsquery int4range int4multirange oid regclass regproc
  regoper regrole regnamespace regconfig regdictionary regcollation xid xid8 cid tid pg_lsn
  txid_snapshot pg_snapshot aclitem refcursor pg_node_tree pg_ndistinct pg_dependencies pg_mcv_list gtsvector jsonpath name
  char "char" mood point3 short_text positive int2vector oidvector unknown cstring record void anyelement float real bool
  time timetz timestamp mood[] point3[] int[][] things public.articles nowhere`);
export const AGGREGATES = ["", "", ".sum()", ".avg()::int", ".max()", ".count()"];
export const PATHS = ["", "", "->a", "->>a", "->0->>b", "->-1"];
export const VALUES =
  words(`1 -0 0x1F 1_000 1e400 1e131073 9223372036854775808 99999999999999999999 NaN -Infinity null true unknown
  {1,2} {{1},{2,3}} {{} (1,2) (1,2,a) (,) [1,3) [3,1] {[1,2)} a* %x% \\ a\\ \\xz 10.0.0.0/8 10.0.0.0/99 2024-02-30 0000-00-00
  294277-01-01 infinity 25:00 P1Y calm {"a":1} {"a" $12 a&b 'a'& a:* <-> ! (a)+* (?<x [[:foo:]] a{99999} ((a{1,99}){1,99}){1,99}`);
/** Tokens of the grammars, and characters that break them. */
export const PIECES = [
  ...VALUES,
  ...words(`' " '' "" \\\\ -- ; /* */ $1 $$ ( ) (( )) { } [ ] , ,, . .. ... : :: ! !! * ** -> ->> - | & && = == ? # / // + %
    not not. and or and( or( eq eq. in. in.( is. is.null like. fts. cs. (any) (all) inner left !inner count count() .sum() asc
    .desc .nullsfirst select order limit offset columns on_conflict rpc/ __proto__ constructor pg_catalog ctid xmin oid id name
    things places labels place_id ::text ::regclass ::"char" ::int[] ::nowhere`),
  ...["", " ", "\t", "\n", "\r\n", "\0", "\u200b", "\u202e", "é", "🙂", "'; drop table things; --"],
  ...[
    "a".repeat(64),
    "é".repeat(40),
    "1".repeat(40),
    "a23456789_123456789_123456789_123456789_123456789_123456789_1234",
  ],
];
/** Percent-encoded bytes: NUL, invalid UTF-8, overlong UTF-8, a lone surrogate, and incomplete encodings. */
export const RAW_PIECES = ["%00", "%ff", "%c0%af", "%ed%a0%80", "%", "%2", "%zz", "+", "&", "=", "&&", "?"];

export const READS = [
  "things?select=id,name&id=eq.1",
  "things?select=id,n:name::text,facts->a->>b&order=id.desc.nullslast&limit=2&offset=1",
  "things?select=*,places(*),children:things!parent_id(id,name)&places.name=eq.here",
  "things?select=id,labels!inner(label)&labels.label=in.(red,%22b,c%22)&labels.order=label.desc",
  "things?or=(id.eq.1,and(name.like.thing*,not.flag.is.true),tags.cs.{x,y})",
  "things?select=flag,count(),exact.sum(),total:loose.avg()::int&order=flag",
  "places?select=name,...things(id,facts->b->0)&things.limit=1&id=not.in.(1,2)",
  "things?select=id,places!place_id!inner(name)&order=places(name).desc&places=not.is.null",
  "things?name=like(any).{a*,thing*}&name=fts(english).thing&words=wfts.some%20-words",
  "things?select=shout,siblings(id)&shout=eq.THING&siblings.order=id",
  "things?spot->x=eq.1&spots->0->>label=eq.l&numbers->0->1=eq.2&notes->a->b=not.is.null",
  "things?during=ov.[2024-01-01,2024-01-02)&levels=adj.[5,6)&several=cs.{[1,2)}",
  "things?%22odd%20%5C%22.,:()name%22=is.null&select=%22odd%20%5C%22.,:()name%22,x:shout",
  "thing_names?select=name,places(name)&limit=1",
  "rpc/add?a=1&b=2",
  "rpc/all_things?select=id,name,places(name)&id=gt.2&order=id&limit=1",
  "rpc/joined?parts=a&parts=b",
  "rpc/divide?a=1&b=0",
  "rpc/spot_of?s=(1,2,x)&m=calm&j={}&t=now&r=[1,2)&d=ok",
  "rpc/same?a=1",
  "rpc/rows_of?n=3&a=eq.1&order=b",
];
/** Requests in which … stands for a text. */
export const PLACES: readonly Sample[] = [
  ...[
    ...["…", "…?id=eq.1", "rpc/…", "rpc/…?a=1", "rpc/add?…=1", "rpc/add?a=…", "rpc/joined?parts=…", "things?…"],
    ...[
      "things?…=eq.1",
      "things?id=…",
      "things?name=eq.…",
      "things?id=eq.…",
      "things?tags=cs.{…}",
      "things?name=fts(…).a",
    ],
    ...[
      "things?select=…",
      "things?select=…:id",
      "things?select=id,…(id)",
      "things?select=x:id::…",
      "things?select=id…",
    ],
    ...["things?select=id,places!…(id)", "things?select=...…(id)", "things?select=facts->…", "things?facts->>…=eq.1"],
    ...["things?or=(…)", "things?or=(id.eq.1,…)", "things?and=(name.…)", "things?order=…", "things?order=id.…"],
    ...["things?limit=…", "things?offset=…", "things?select=id,places(id)&places.…=1", "things?….limit=1"],
  ].map((path): Sample => ["GET", path]),
  ["POST", "things?columns=…"],
  ["POST", "things?on_conflict=…"],
  ["POST", "things?select=…"],
  ["PUT", "things?id=eq.…"],
  ["PATCH", "things?id=in.(…)"],
  ["DELETE", "things?name=eq.…"],
];
export const CHANGES: readonly Sample[] = [
  ["POST", "things"],
  ["POST", "things?columns=id,name&on_conflict=id"],
  ["POST", "things?select=id,places(name)"],
  ["PATCH", "things?id=eq.1"],
  ["PATCH", "things?place_id=eq.1&places.name=eq.here&select=id,places!inner(name)"],
  ["PUT", "things?id=eq.7"],
  ["DELETE", "things?id=in.(4,5)&select=*"],
  ["DELETE", "places?id=eq.2"],
  ["POST", "labels?on_conflict=label"],
  ["POST", "rpc/add"],
  ["POST", "rpc/rename_thing?select=id"],
  ["POST", "rpc/whole"],
  ["POST", "rpc/text_body"],
  ["POST", "rpc/bytes_body"],
  ["POST", "rpc/spot_of"],
  ["POST", "rpc/joined"],
  ["POST", "rpc/over"],
  ["POST", "rpc/all_things?limit=1"],
  ["POST", "rpc/nothing"],
];
export const PREFERENCES = [
  "return=representation",
  "return=headers-only",
  "return=representation,resolution=merge-duplicates",
  "return=representation,resolution=ignore-duplicates",
  "return=representation,missing=default",
  "return=representation,count=exact",
  "handling=strict,max-affected=1",
];
export const COMMITS = ["tx=commit", "return=representation,tx=commit"];
export const BODIES = [
  ...["", "{}", "[]", "[{}]", "null", "1", '"x"', "[1]", "[[]]", "{", "[{", '{"id":1}{"id":2}', "\ufeff{}", "{'id':1}"],
  ...['{"id":1,"id":2}', '[{"id":8},{"name":"x"}]', '{"id":1e400}', `{"id":${"9".repeat(400)}}`, '{"name":"\\ud800"}'],
  ...['{"name":"\\u0000"}', '{"facts":"\\u0000"}', '{"__proto__":{"id":1}}', '{"":1}', `{"facts":${"[".repeat(63)}`],
  ...[
    '{"a":1,"b":2}',
    '{"id":1,"name":"x"}',
    '{"parts":["a","b"]}',
    '{"parts":1}',
    '{"a":"\\u0000"}',
    '[{"a":1},{"a":2}]',
  ],
  ...[
    '{"s":"(1,2,x)","m":"calm","j":{},"t":"now","r":"[1,2)","d":"ok"}',
    '{"s":{"x":1},"m":1,"j":1,"t":1,"r":1,"d":1}',
  ],
  ...[
    "id,name\n8,x\n",
    "id,name\n8\n",
    'id\n"8',
    'id\n"8"x',
    "id,id\n1,1",
    "\n",
    "id=8&name=x",
    "id=%00",
    "id=%ff",
    "=&=",
    "&",
  ],
];
export const HEADERS: Readonly<Record<string, readonly string[]>> = {
  prefer: [
    ...PREFERENCES,
    "count=exact",
    "count=planned",
    "count=estimated",
    "timezone=nowhere",
    "timezone='",
    ",,=;",
    "tx=x",
  ],
  accept: [
    ...[
      "application/json",
      "text/csv",
      "text/plain",
      "text/xml",
      "application/octet-stream",
      "application/geo+json",
      "a/b",
    ],
    ...[
      "application/vnd.pgrst.object+json",
      "application/vnd.pgrst.array+json;nulls=stripped",
      "*/*;q=0",
      ";;",
      'a/b;c="',
    ],
    'application/vnd.pgrst.plan+json;options=analyze|verbose;for="text/csv"',
  ],
  range: ["0-1", "1-", "5-2", "items=0-0", "-1", "999999999999999-", "0-99999999999999999999999", "x"],
  "range-unit": ["items", "bytes"],
  "accept-profile": ["fuzz", "public", "pg_catalog", '"'],
  "content-profile": ["fuzz", "public", "internal"],
  "content-type": [
    ...["application/json", "text/csv", "application/x-www-form-urlencoded", "text/plain", "application/octet-stream"],
    ...["text/xml", "application/json; charset=latin1", "application/json;", "x", ""],
  ],
};

/** `"a  b"` → `["a", "b"]` */
function words(text: string): string[] {
  return text.split(/\s+/);
}
