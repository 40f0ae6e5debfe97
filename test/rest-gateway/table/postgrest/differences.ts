/** Intended differences from PostgREST 12.0.2. Each of these requests differs in exactly these fields. */
export type Difference = {
  readonly why: string;
  readonly differs: readonly string[];
  readonly requests: readonly string[];
};

export const DIFFERENCES: readonly Difference[] = [
  // Later versions of PostgREST have changed.
  {
    why: "since 13 an unknown table has a code and a hint",
    differs: ["outcome: 404 42P01 → 404 PGRST205"],
    requests: [
      "GET /Films",
      "GET /nowhere",
      "GET /film",
      "GET /vault.reels",
      "GET /reels",
      "GET /rpc",
      "GET /boxes",
      "GET /people, accept-profile: archive",
      "DELETE /nowhere?id=eq.1",
    ],
  },
  {
    why: "the same, where 12 responds with 404 and no body",
    differs: ["outcome: 404 → 404 PGRST205"],
    requests: [
      'POST /nowhere, body {"a":1}',
      'PATCH /nowhere?id=eq.1, body {"a":1}',
      'POST /boxes, prefer return=representation, accept-profile: archive, body {"id":1,"label":"x"}',
      "OPTIONS /nowhere",
    ],
  },
  {
    why: "partitions are not in the schema cache, and since 13 what is not in it is not served",
    differs: ["outcome: 200 → 404 PGRST205"],
    requests: ["GET /visits_late?order=show_id"],
  },
  {
    why: "since 13 an invalid path has a code",
    differs: ["outcome: 404 → 404 PGRST125"],
    requests: ["GET /films/1", "GET /rpc/add_them/more"],
  },
  {
    why: "since 13 an unavailable media type is 406",
    differs: ["outcome: 415 PGRST107 → 406 PGRST107"],
    requests: [
      "GET /films?select=id,title,year,gross&id=eq.2, accept: nonsense",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: application/octet-stream",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: text/plain",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: text/xml",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: image/webp",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: application/vnd.pgrst.plan+json",
      'POST /rpc/add_them, accept: text/plain, body {"a":1,"b":2}',
    ],
  },
  {
    why: "since 13 is.not_null exists, and not may precede any condition of a list",
    differs: ["outcome: 400 PGRST100 → 200"],
    requests: [
      "GET /films?select=id&order=id&gross=is.not_null",
      "GET /films?select=id&order=id&or=(not.id.eq.1,id.eq.1)",
    ],
  },
  {
    why: "since 13 to-many relations are spread as arrays",
    differs: ["outcome: 400 PGRST119 → 200"],
    requests: ["GET /studios?select=name,...films(title)&order=id"],
  },
  {
    why: "since 13 max-affected is a preference",
    differs: ["outcome: 400 PGRST122 → 200"],
    requests: [
      'PATCH /films?id=eq.1, prefer handling=strict, max-affected=1, return=representation, body {"score":9}',
      "DELETE /tags, prefer handling=strict, max-affected=2, return=representation",
    ],
  },
  {
    why: "since 13 max-affected is a preference",
    differs: ["outcome: 400 PGRST122 → 400 PGRST124"],
    requests: [
      'PATCH /films?director_id=eq.3, prefer handling=strict, max-affected=1, body {"score":9}',
      "DELETE /tags, prefer handling=strict, max-affected=1",
      'POST /rpc/some_numbers, prefer handling=strict, max-affected=3, body {"upto":9}',
    ],
  },
  {
    why: "since 13 limit does not apply to writes; 12 requires an order with it",
    differs: ["outcome: 400 PGRST109 → 200"],
    requests: ['PATCH /films?id=eq.1&limit=1, prefer return=representation, body {"score":9}'],
  },
  {
    why: "since 13 an expired token has a separate code",
    differs: ["outcome: 401 PGRST301 → 401 PGRST303"],
    requests: ["GET /films?select=id&limit=1&order=id, as expired"],
  },
  {
    why: "since 13 a role that does not exist is 401",
    differs: ["outcome: 400 22023 → 401 22023"],
    requests: ["GET /films?select=id&limit=1&order=id, as an unknown role"],
  },
  {
    why: "since 16 an unknown time zone is always refused",
    differs: ["outcome: 200 → 400 22023"],
    requests: ["GET /moments?order=id, prefer timezone=Nowhere/Else"],
  },
  {
    why: "since 16 an unknown time zone is always refused",
    differs: ["outcome: 400 PGRST122 → 400 22023"],
    requests: ["GET /moments?order=id, prefer handling=strict, timezone=Nowhere/Else"],
  },
  {
    why: "since 13 OPTIONS for a function does not depend on its arguments",
    differs: ["outcome: 404 PGRST202 → 200"],
    requests: ["OPTIONS /rpc/add_them", "OPTIONS /rpc/rename_film"],
  },
  {
    why: "newer versions pass only unmodified rows of its table to the aggregate of a media type",
    differs: ["outcome: 200 → 406 PGRST107"],
    requests: ["GET /tags?order=name&select=name, accept: text/tab-separated-values"],
  },
  {
    why: "an aggregate for anyelement accepts any rows",
    differs: ["outcome: 400 42846 → 200"],
    requests: ["GET /prizes?select=name&order=id, accept: text/x-rows"],
  },
  {
    why: "an aggregate for anyelement accepts any rows",
    differs: ["outcome: 400 42704 → 200"],
    requests: ["GET /rpc/pairs?upto=2, accept: text/x-rows"],
  },
  {
    why: "newer versions pass an argument in a URL unchanged, 12 as JSON text",
    differs: ["body"],
    requests: ['GET /rpc/named_json?doc={"a":1}'],
  },

  // Valid requests that 12 refuses or fails at.
  {
    why: "filters and order may name columns that are not selected, and aliases of the select list",
    differs: ["outcome: 400 42703 → 200"],
    requests: [
      "GET /films?select=decade:data->>lang,count()&order=decade",
      "GET /shows?select=...films(title),price.sum()&order=title",
      "GET /films?select=title,studios(name)&order=studios(founded),id",
      "GET /rpc/films_of?director=3&select=id,title,headline&year=gt.1960&order=title",
      "GET /rpc/pairs?upto=3&n=gt.1&select=square&order=square.desc",
      'POST /rpc/films_of?select=id&year=eq.1954, accept: application/vnd.pgrst.object+json, body {"director":3}',
      "GET /films?select=...studios(studio:name),year.max()&order=studios(name)",
    ],
  },
  {
    why: "a spread relation with count() and another column; 12 writes an ambiguous name",
    differs: ["outcome: 400 42702 → 200"],
    requests: ["GET /films?select=...studios(id,count())&order=id"],
  },
  {
    why: "a foreign key is a hint in self references, in junctions and across schemas too",
    differs: ["outcome: 400 PGRST200 → 200"],
    requests: [
      "GET /films?select=title,films!films_sequel_of_fkey(title)&order=id",
      "GET /people?select=name,pupils:people!lessons_pupil_fkey(name)&order=id",
      "GET /films?select=title,former:former_id(title), accept-profile: archive",
      "GET /films?select=title,former_id(title)&order=id, accept-profile: archive",
    ],
  },
  {
    why: "the column of a view selects the row of the table, even if a view shows that row too",
    differs: ["outcome: 300 PGRST201 → 200"],
    requests: ["GET /colour_films?select=title,sequel_of(title)"],
  },
  {
    why: "both relationships through the junction are listed",
    differs: ["outcome: 400 PGRST200 → 300 PGRST201"],
    requests: ["GET /people?select=name,people!lessons(name)&order=id"],
  },
  {
    why: "a relation may be embedded twice",
    differs: ["outcome: 400 42712 → 200"],
    requests: ["GET /films?select=studios(name),studios(founded)&id=eq.1"],
  },
  {
    why: "HTTP allows types with a star; text, xml and bytea are returned unchanged",
    differs: ["outcome: 415 PGRST107 → 200"],
    requests: [
      "GET /films?select=id,title,year,gross&id=eq.2, accept: application/*",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: text/*",
      "GET /rpc/picture, accept: image/*",
      "GET /rpc/picture_bytes, accept: application/octet-stream",
      "GET /rpc/big_text, accept: text/plain",
      "POST /rpc/echo_text, content-type: text/plain, accept: text/plain, body some text",
      "POST /rpc/echo_bytes, content-type: application/octet-stream, accept: application/octet-stream, body bytes",
    ],
  },
  {
    why: "a function with a JSON argument accepts an array",
    differs: ["outcome: 400 PGRST102 → 200"],
    requests: ["POST /rpc/echo_json, body [1,2]", 'POST /rpc/echo_json, body [{"a":1},{"b":2}]'],
  },
  {
    why: "it accepts a number too, which 12 ignores",
    differs: ["body"],
    requests: ["POST /rpc/echo_json, body 7"],
  },
  {
    why: "the media types of Accept are accepted in Content-Type",
    differs: ["outcome: 400 PGRST102 → 201"],
    requests: ['POST /prizes, content-type: application/vnd.pgrst.object+json, body {"id":3,"name":"Bear"}'],
  },
  {
    why: "the unit may be in Range, as in HTTP",
    differs: ["content-range: 0-5/* → 0-1/*", "body"],
    requests: ["GET /films?select=id&order=id, range: items=0-1"],
  },
  {
    why: "12 fails at headers beyond ASCII",
    differs: ["outcome: 500 → 200"],
    requests: ["GET /rpc/who, as bob, x-custom: ü"],
  },

  // Invalid requests that 12 accepts.
  {
    why: "a limit that is not a number is refused, as is a character that Postgres cannot store; 12 ignores both",
    differs: ["outcome: 200 → 400 PGRST100"],
    requests: [
      "GET /films?select=id&order=id&limit=x",
      "GET /films?select=id&order=id&limit=",
      "GET /films?select=id&order=id&title=eq.a%00b",
    ],
  },
  {
    why: "a body without a row is refused; 12 writes nothing and responds with 201",
    differs: ["outcome: 201 → 400 PGRST102"],
    requests: ["POST /prizes, body 1", "POST /prizes, body null", 'POST /prizes, body "text"'],
  },
  {
    why: "a CSV line with too few fields is refused; 12 fills it with null",
    differs: ["outcome: 400 23502 → 400 PGRST102"],
    requests: ["POST /prizes, prefer return=representation, content-type: text/csv, body id,name\n3\n"],
  },
  {
    why: "an invalid credential is never ignored",
    differs: ["outcome: 200 → 401 PGRST301"],
    requests: [
      "GET /films?select=id&limit=1&order=id, authorization: Basic YTpi",
      "GET /films?select=id&limit=1&order=id, authorization: Bearer",
    ],
  },

  // Different statuses and codes of refused requests.
  {
    why: "a read-only view does not have this method",
    differs: ["outcome: 500 55000 → 405 PGRST117"],
    requests: [
      'POST /directors, body {"id":1}',
      'PATCH /directors?id=eq.1, body {"name":"x"}',
      "DELETE /directors?id=eq.1",
    ],
  },
  {
    why: "a read-only view does not have this method",
    differs: ["outcome: 400 42809 → 405 PGRST117"],
    requests: ['POST /film_years, body {"year":1}'],
  },
  {
    why: "an unsupported body type is 415 on all interfaces",
    differs: ["outcome: 400 PGRST102 → 415 PGRST102"],
    requests: ['POST /prizes, content-type: application/xml, body {"id":3,"name":"Bear"}'],
  },
  {
    why: "a filter on a relation other than a null test has a code; 12 looks for a column",
    differs: ["outcome: 400 42703 → 400 PGRST120"],
    requests: ["GET /films?select=title,studios(name)&studios=eq.1"],
  },
  {
    why: "conditions require brackets; 12 reads a column 'orid'",
    differs: ["outcome: 400 42703 → 400 PGRST100"],
    requests: ["GET /films?select=id&order=id&or=id.eq.1"],
  },
  {
    why: "the arguments do not match, whatever the media type of the body",
    differs: ["outcome: 404 42883 → 404 PGRST202"],
    requests: ['POST /rpc/named_json, body {"a":1}'],
  },
  {
    why: "a path without a name does not refer to a function",
    differs: ["outcome: 404 PGRST202 → 404 PGRST125"],
    requests: ["GET /rpc/"],
  },
  {
    why: "without PostGIS, GeoJSON is unavailable, and no function is missing",
    differs: ["outcome: 404 42883 → 406 PGRST107"],
    requests: ["GET /films?select=id,title,year,gross&id=eq.2, accept: application/geo+json"],
  },
  {
    why: "the new error of PostgreSQL 18 for `on delete restrict` is a violated foreign key, as in earlier versions",
    differs: ["outcome: 400 23001 → 409 23503"],
    requests: ["DELETE /films?id=eq.1&select=title,studios(name), prefer return=representation"],
  },
  {
    why: "functions raise 28000 when a login is required",
    differs: ["outcome: 403 28000 → 401 28000"],
    requests: ["GET /rpc/fails_with?sqlstate_=28000"],
  },
  {
    why: "functions raise P0002 when a row does not exist",
    differs: ["outcome: 500 P0002 → 404 P0002"],
    requests: ["GET /rpc/fails_with?sqlstate_=P0002"],
  },
  {
    why: "a concurrent change of the same row has the same status on all interfaces",
    differs: ["outcome: 500 55P03 → 409 55P03"],
    requests: ["GET /rpc/fails_with?sqlstate_=55P03"],
  },
  {
    why: "a statement that takes too long is a timeout",
    differs: ["outcome: 500 57014 → 504 57014"],
    requests: ["GET /rpc/fails_with?sqlstate_=57014"],
  },
  {
    why: "internal details are only in the log",
    differs: ["outcome: 500 XX000 → 500 PGRSTX00"],
    requests: ["GET /rpc/fails_with?sqlstate_=XX000"],
  },
  {
    why: "a limit in the server's settings is 500, as since 13",
    differs: ["outcome: 503 53400 → 500 53400"],
    requests: ["GET /rpc/fails_with?sqlstate_=53400"],
  },
  {
    why: "999 is not a valid HTTP status",
    differs: ["outcome: 999 PT999 → 500 PGRSTX00"],
    requests: ["GET /rpc/fails_with?sqlstate_=PT999"],
  },

  // Different bodies, messages and headers.
  {
    why: "a relation in which nothing is selected is left out; 12 returns empty objects",
    differs: ["body"],
    requests: [
      "GET /films?select=title,people!director_id(countries())&order=id",
      "GET /studios?select=name,films(roles(people()))&order=id",
      "GET /studios?select=name,films!inner(roles!inner())&order=id",
    ],
  },
  {
    why: "a failing row is not shown, because functions with more privileges than the caller may have filled it",
    differs: ["details"],
    requests: [
      "POST /moments, prefer return=representation, body {}",
      'POST /moments?columns=id,made, prefer return=representation, missing=null, body [{"id":5}]',
      'POST /films, prefer return=representation, body {"id":52,"title":null}',
      'POST /films, prefer return=representation, body {"id":52,"title":"Early","year":1700}',
      'POST /colour_films?select=id,title, prefer return=representation, body {"id":53,"title":"Grey"}',
      'POST /visits, prefer return=representation, body {"day":"1999-05-01","show_id":3,"people":4}',
      'POST /mail_list, prefer return=representation, body {"address":"x@y"}',
      'PATCH /films?id=eq.1, prefer return=representation, body {"title":null}',
      'PATCH /colour_films?id=eq.6, prefer return=representation, body {"is_colour":false}',
      'PUT /prizes?id=eq.3, prefer return=representation, body {"id":3}',
      'POST /rpc/rename_film, body {"id":1,"title":null}',
      'POST /members?columns=name, prefer resolution=merge-duplicates, body {"id":1,"name":"Again"}',
    ],
  },
  {
    why: "a column is looked up before the query runs, so the message has the table name that the client uses",
    differs: ["message"],
    requests: [
      "GET /films?select=title,studios(nowhere)",
      'POST /people?on_conflict=nowhere, prefer return=representation, resolution=merge-duplicates, body {"id":1,"name":"x"}',
      'POST /rpc/films_of?select=nowhere, body {"director":3}',
    ],
  },
  {
    why: "the hint names the columns of the body that the caller may not write",
    differs: ["hint"],
    requests: [
      'POST /members, body {"id":3,"password":"x"}',
      'PATCH /members?id=eq.1, body {"password":"x"}',
      'POST /members, prefer resolution=merge-duplicates, body {"id":1,"name":"Again"}',
    ],
  },
  {
    why: "the hint differs",
    differs: ["hint"],
    requests: ["GET /films?select=title,studios&order=id", "GET /rpc/films_of?director=3&director=eq.3"],
  },
  {
    why: "405 has the header Allow, as HTTP requires",
    differs: ["allow: null → OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"],
    requests: [
      'PUT /prizes, body {"id":3,"name":"Bear"}',
      'PUT /prizes?name=eq.x, body {"id":3,"name":"Bear"}',
      'PUT /prizes?id=gt.3, body {"id":3,"name":"Bear"}',
      'PUT /prizes?id=eq.3&name=eq.Bear, body {"id":3,"name":"Bear"}',
      'PUT /prizes?id=eq.3&or=(id.eq.3), body {"id":3,"name":"Bear"}',
      'PUT /wins?film_id=eq.3, prefer return=representation, body {"film_id":3,"prize_id":2}',
    ],
  },
  {
    why: "405 has the header Allow, as HTTP requires",
    differs: ["allow: null → OPTIONS,GET,HEAD,POST,PATCH,DELETE"],
    requests: ['PUT /nothing_but?word=eq.x, body {"word":"x","amount":1}'],
  },
  {
    why: "405 has the header Allow, as HTTP requires",
    differs: ["allow: null → OPTIONS,GET,HEAD,POST"],
    requests: [
      'PUT /rpc/add_them, body {"a":1,"b":2}',
      'PATCH /rpc/add_them, body {"a":1,"b":2}',
      "DELETE /rpc/add_them",
    ],
  },
  {
    why: "12 encodes non-ASCII characters twice",
    differs: ["content-location"],
    requests: [
      'GET /Odd%20Table?select="a.b","x,y","it\'s","quo\\"ted","(paren)","größe",camelCase&order="the id"',
      "GET /Odd%20Table?select=the%20id,select,größe&order=the%20id.desc",
      "GET /日本",
      "GET /日本?名前=eq.映画",
      "GET /films?select=id&order=id&title=eq.Cl%C3%A9o%20from%205%20to%207",
      'GET /films?select=id&order=id&or=(title.eq."Seven Samurai",title.in.("M","Cléo, 5"))',
    ],
  },
  {
    why: "12 omits the Location of such a table",
    differs: ["location"],
    requests: ['POST /日本, prefer return=headers-only, body {"名前":"本"}'],
  },
  {
    why: "12 joins the values of a repeated parameter, adds = to a parameter without it and reorders them, which is a different URL",
    differs: ["content-location"],
    requests: [
      "GET /films?select=id&order=id&limit=1&limit=2",
      "GET /films?select=id&order=id&id=gt.2&id=lt.5",
      "GET /films?select=id&order=id&released=gte.1954-01-01&released=lt.1962-01-01",
      "GET /films?select=id&id=eq.1&select=title",
      "GET /films?select=id&order=id&words=fts.seven & samurai",
      "GET /films?select=id&order=id&id",
      "GET /studios?select=name,films(title)&films.year=gt.1960&films=is.null&order=id",
    ],
  },
  {
    why: "all counts of writes are exact",
    differs: ["content-range: */* → */1"],
    requests: ['POST /prizes, prefer count=planned, body [{"id":3,"name":"Bear"}]'],
  },
  {
    why: "all counts of writes are exact",
    differs: ["content-range: 0-0/* → 0-0/1"],
    requests: ['PATCH /films?id=eq.1, prefer count=planned, body {"score":9}'],
  },
  {
    why: "the range counts the changed rows, not the returned rows",
    differs: ["content-range: 0-2/* → 0-5/*"],
    requests: [
      'PATCH /films?select=id,studios!inner(name)&studios.name=eq.Toho&order=id, prefer return=representation, body {"score":9}',
    ],
  },

  // Different bodies.
  {
    why: "CSV has a header even without rows, single backslashes, and the same JSON as other formats",
    differs: ["body"],
    requests: [
      "GET /films?id=eq.77, accept: text/csv",
      "GET /films?select=id,title,tags,data,notes,is_colour,released&order=id, accept: text/csv",
      "GET /films?select=title,posters(colour)&order=id, accept: text/csv",
    ],
  },
  {
    why: "deleted rows are returned in the requested order",
    differs: ["body"],
    requests: ["DELETE /tags?name=in.(red,green)&select=n:name&order=name, prefer return=representation"],
  },
  {
    why: "a function without a row returns null instead of an object of nulls (PostgREST issue 3694)",
    differs: ["content-range: 0-0/* → */*", "body"],
    requests: [
      "GET /rpc/no_film",
      "GET /rpc/home_of?id=2",
      "POST /rpc/no_film, body {}",
      'POST /rpc/rename_film?select=id,title, body {"id":77,"title":"New"}',
    ],
  },
  {
    why: "so does a function whose row is filtered out; 12 counts it nevertheless",
    differs: ["content-range: 0-0/* → */*"],
    requests: ["GET /rpc/one_film?id=eq.2"],
  },
  {
    why: "therefore there is no single row",
    differs: ["outcome: 200 → 406 PGRST116"],
    requests: ["POST /rpc/no_film?select=id, accept: application/vnd.pgrst.object+json, body {}"],
  },
  {
    why: "the error of a value that a column cannot have names the column",
    differs: ["details"],
    requests: [
      'POST /films, prefer return=representation, body {"id":"x","title":"X"}',
      'POST /films, prefer return=representation, body {"id":52,"title":"X","code":"too long"}',
      'POST /films, prefer return=representation, body {"id":52,"title":"X","year":99999}',
      'POST /films, prefer return=representation, body {"id":52,"title":"X","released":"2020-13-01"}',
      'POST /people, prefer return=representation, body {"id":9,"name":"New","mail":"nobody"}',
    ],
  },
  {
    why: "a client cannot use OVERRIDING SYSTEM VALUE, but it can leave the column out",
    differs: ["hint"],
    requests: [
      'POST /counters, prefer return=representation, body {"label":"x","id":9}',
      'POST /counters, prefer return=representation, body {"label":"x","twice":9}',
      'PATCH /counters?id=eq.1, prefer return=representation, body {"id":5}',
    ],
  },
  {
    why: "the error of a body names every fault",
    differs: ["details", "hint"],
    requests: [
      "POST /prizes, prefer return=representation, body [{}]",
      "POST /prizes, prefer return=representation, content-type: application/x-www-form-urlencoded, body ",
    ],
  },
  {
    why: "the error of an invalid enum value in a body names the column, and lists the labels",
    differs: ["details", "hint"],
    requests: ['POST /films, prefer return=representation, body {"id":52,"title":"X","rated":"Z"}'],
  },
  {
    why: "the error of another invalid enum value lists the labels",
    differs: ["hint"],
    requests: ["GET /films?select=id&order=id&rated=eq.X", "GET /rpc/rated?c=X"],
  },
];
