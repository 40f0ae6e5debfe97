/** What we answer otherwise than PostgREST 12.0.2, and mean to: each of these requests differs in just this. */
export type Difference = {
  readonly why: string;
  readonly differs: readonly string[];
  readonly requests: readonly string[];
};

export const DIFFERENCES: readonly Difference[] = [
  // PostgREST has changed since.
  {
    why: "since 13 a table that is not there is told with a code and a hint",
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
    why: "the same, where 12 answers nothing but 404",
    differs: ["outcome: 404 → 404 PGRST205"],
    requests: [
      'POST /nowhere, body {"a":1}',
      'PATCH /nowhere?id=eq.1, body {"a":1}',
      'POST /boxes, prefer return=representation, accept-profile: archive, body {"id":1,"label":"x"}',
      "OPTIONS /nowhere",
    ],
  },
  {
    why: "since 13 an address that is none is told with a code",
    differs: ["outcome: 404 → 404 PGRST125"],
    requests: ["GET /films/1", "GET /rpc/add_them/more"],
  },
  {
    why: "since 13 a media type that can't be had is 406",
    differs: ["outcome: 415 PGRST107 → 406 PGRST107"],
    requests: [
      "GET /films?select=id,title,year,gross&id=eq.2, accept: application/octet-stream",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: text/plain",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: text/xml",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: image/webp",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: application/vnd.pgrst.plan+json",
      'POST /rpc/add_them, accept: text/plain, body {"a":1,"b":2}',
    ],
  },
  {
    why: "since 13 there is is.not_null; in a list of conditions not may stand in front of all of them",
    differs: ["outcome: 400 PGRST100 → 200"],
    requests: [
      "GET /films?select=id&order=id&gross=is.not_null",
      "GET /films?select=id&order=id&or=(not.id.eq.1,id.eq.1)",
    ],
  },
  {
    why: "since 13 many rows are spread as arrays",
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
    why: "since 13 limit has no say in what is written; 12 wants an order beside it",
    differs: ["outcome: 400 PGRST109 → 200"],
    requests: ['PATCH /films?id=eq.1&limit=1, prefer return=representation, body {"score":9}'],
  },
  {
    why: "since 13 an expired token has a code of its own",
    differs: ["outcome: 401 PGRST301 → 401 PGRST303"],
    requests: ["GET /films?select=id&limit=1&order=id, as expired"],
  },
  {
    why: "since 13 a role that does not exist is 401",
    differs: ["outcome: 400 22023 → 401 22023"],
    requests: ["GET /films?select=id&limit=1&order=id, as a role that is none"],
  },
  {
    why: "since 16 a time zone that is none is always refused",
    differs: ["outcome: 200 → 400 22023"],
    requests: ["GET /moments?order=id, prefer timezone=Nowhere/Else"],
  },
  {
    why: "since 16 a time zone that is none is always refused",
    differs: ["outcome: 400 PGRST122 → 400 22023"],
    requests: ["GET /moments?order=id, prefer handling=strict, timezone=Nowhere/Else"],
  },
  {
    why: "since 13 OPTIONS asks about a function whatever its arguments are",
    differs: ["outcome: 404 PGRST202 → 200"],
    requests: ["OPTIONS /rpc/add_them", "OPTIONS /rpc/rename_film"],
  },
  {
    why: "newer versions give to the aggregate of a media type the rows of its table as they are, and no others",
    differs: ["outcome: 200 → 406 PGRST107"],
    requests: ["GET /tags?order=name&select=name, accept: text/tab-separated-values"],
  },
  {
    why: "but to one for anyelement any rows",
    differs: ["outcome: 400 42846 → 200"],
    requests: ["GET /prizes?select=name&order=id, accept: text/x-rows"],
  },
  {
    why: "but to one for anyelement any rows",
    differs: ["outcome: 400 42704 → 200"],
    requests: ["GET /rpc/pairs?upto=2, accept: text/x-rows"],
  },
  {
    why: "newer versions give an argument in a URL to the function as it is, 12 as a text of JSON",
    differs: ["body"],
    requests: ['GET /rpc/named_json?doc={"a":1}'],
  },

  // What 12 refuses, or fails at, though it can be answered.
  {
    why: "filters and order may name columns that are not selected, and what the select list calls something",
    differs: ["outcome: 400 42703 → 200"],
    requests: [
      "GET /films?select=decade:data->>lang,count()&order=decade",
      "GET /shows?select=...films(title),price.sum()&order=title",
      "GET /films?select=title,studios(name)&order=studios(founded),id",
      "GET /rpc/films_of?director=3&select=id,title,headline&year=gt.1960&order=title",
      "GET /rpc/pairs?upto=3&n=gt.1&select=square&order=square.desc",
      'POST /rpc/films_of?select=id&year=eq.1954, accept: application/vnd.pgrst.object+json, body {"director":3}',
    ],
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
    why: "the two ways through the junction are told",
    differs: ["outcome: 400 PGRST200 → 300 PGRST201"],
    requests: ["GET /people?select=name,people!lessons(name)&order=id"],
  },
  {
    why: "a relation may be embedded twice",
    differs: ["outcome: 400 42712 → 200"],
    requests: ["GET /films?select=studios(name),studios(founded)&id=eq.1"],
  },
  {
    why: "types with a star are HTTP; an Accept that can't be read is none; text, xml and bytea are given as they are",
    differs: ["outcome: 415 PGRST107 → 200"],
    requests: [
      "GET /films?select=id,title,year,gross&id=eq.2, accept: application/*",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: text/*",
      "GET /films?select=id,title,year,gross&id=eq.2, accept: nonsense",
      "GET /rpc/picture, accept: image/*",
      "GET /rpc/picture_bytes, accept: application/octet-stream",
      "GET /rpc/big_text, accept: text/plain",
      "POST /rpc/echo_text, content-type: text/plain, accept: text/plain, body some text",
      "POST /rpc/echo_bytes, content-type: application/octet-stream, accept: application/octet-stream, body bytes",
    ],
  },
  {
    why: "an array is JSON too, for a function that takes JSON",
    differs: ["outcome: 400 PGRST102 → 200"],
    requests: ["POST /rpc/echo_json, body [1,2]", 'POST /rpc/echo_json, body [{"a":1},{"b":2}]'],
  },
  {
    why: "and so is a number, which 12 takes for nothing",
    differs: ["body"],
    requests: ["POST /rpc/echo_json, body 7"],
  },
  {
    why: "what is asked for as a media type may be sent as one",
    differs: ["outcome: 400 PGRST102 → 201"],
    requests: ['POST /prizes, content-type: application/vnd.pgrst.object+json, body {"id":3,"name":"Bear"}'],
  },
  {
    why: "the unit may stand in Range, where HTTP has it",
    differs: ["content-range: 0-5/* → 0-1/*", "body"],
    requests: ["GET /films?select=id&order=id, range: items=0-1"],
  },
  {
    why: "12 fails at headers beyond ASCII",
    differs: ["outcome: 500 → 200"],
    requests: ["GET /rpc/who, as bob, x-custom: ü"],
  },

  // What 12 takes, though it makes no sense.
  {
    why: "a limit that is no number is refused, 12 passes it over; a character that Postgres can't store too",
    differs: ["outcome: 200 → 400 PGRST100"],
    requests: [
      "GET /films?select=id&order=id&limit=x",
      "GET /films?select=id&order=id&limit=",
      "GET /films?select=id&order=id&title=eq.a%00b",
    ],
  },
  {
    why: "a negative offset is refused as a negative limit is",
    differs: ["outcome: 200 → 416 PGRST103"],
    requests: ["GET /films?select=id&order=id&offset=-1"],
  },
  {
    why: "a body that holds no row is refused, 12 writes nothing and answers 201",
    differs: ["outcome: 201 → 400 PGRST102"],
    requests: ["POST /prizes, body 1", "POST /prizes, body null", 'POST /prizes, body "text"'],
  },
  {
    why: "a line of CSV that is too short is refused, 12 fills it with null",
    differs: ["outcome: 400 23502 → 400 PGRST102"],
    requests: ["POST /prizes, prefer return=representation, content-type: text/csv, body id,name\n3\n"],
  },
  {
    why: "a credential that is no good is never passed over",
    differs: ["outcome: 200 → 401 PGRST301"],
    requests: [
      "GET /films?select=id&limit=1&order=id, authorization: Basic YTpi",
      "GET /films?select=id&limit=1&order=id, authorization: Bearer",
    ],
  },

  // Other statuses and codes for what both refuse.
  {
    why: "a view that can't be written has no such method",
    differs: ["outcome: 500 55000 → 405 PGRST117"],
    requests: [
      'POST /directors, body {"id":1}',
      'PATCH /directors?id=eq.1, body {"name":"x"}',
      "DELETE /directors?id=eq.1",
    ],
  },
  {
    why: "a view that can't be written has no such method",
    differs: ["outcome: 400 42809 → 405 PGRST117"],
    requests: ['POST /film_years, body {"year":1}'],
  },
  {
    why: "a type of body that is not read is 415 on all interfaces",
    differs: ["outcome: 400 PGRST102 → 415 PGRST102"],
    requests: ['POST /prizes, content-type: application/xml, body {"id":3,"name":"Bear"}'],
  },
  {
    why: "a filter on a relation that is no null test has a code; 12 looks for a column",
    differs: ["outcome: 400 42703 → 400 PGRST120"],
    requests: ["GET /films?select=title,studios(name)&studios=eq.1"],
  },
  {
    why: "conditions want brackets; 12 reads a column 'orid'",
    differs: ["outcome: 400 42703 → 400 PGRST100"],
    requests: ["GET /films?select=id&order=id&or=id.eq.1"],
  },
  {
    why: "the arguments do not fit, whatever the body is called",
    differs: ["outcome: 404 42883 → 404 PGRST202"],
    requests: ['POST /rpc/named_json, body {"a":1}'],
  },
  {
    why: "a path without a name names no function",
    differs: ["outcome: 404 PGRST202 → 404 PGRST125"],
    requests: ["GET /rpc/"],
  },
  {
    why: "without PostGIS there is no GeoJSON, and no function to tell of",
    differs: ["outcome: 404 42883 → 406 PGRST107"],
    requests: ["GET /films?select=id,title,year,gross&id=eq.2, accept: application/geo+json"],
  },
  {
    why: "what PostgreSQL 18 raises for `on delete restrict` is the conflict that it was before",
    differs: ["outcome: 400 23001 → 409 23001"],
    requests: ["DELETE /films?id=eq.1&select=title,studios(name), prefer return=representation"],
  },
  {
    why: "28000 is how functions say that a login is required",
    differs: ["outcome: 403 28000 → 401 28000"],
    requests: ["GET /rpc/fails_with?sqlstate_=28000"],
  },
  {
    why: "P0002 is how functions say that there is no such row",
    differs: ["outcome: 500 P0002 → 404 P0002"],
    requests: ["GET /rpc/fails_with?sqlstate_=P0002"],
  },
  {
    why: "somebody else changes the same row: the same status on all interfaces",
    differs: ["outcome: 500 55P03 → 409 55P03"],
    requests: ["GET /rpc/fails_with?sqlstate_=55P03"],
  },
  {
    why: "a statement that took too long is a timeout",
    differs: ["outcome: 500 57014 → 504 57014"],
    requests: ["GET /rpc/fails_with?sqlstate_=57014"],
  },
  {
    why: "what is none of the client's business is in the log",
    differs: ["outcome: 500 XX000 → 500 PGRSTX00"],
    requests: ["GET /rpc/fails_with?sqlstate_=XX000"],
  },
  {
    why: "a limit of the server's settings, as since 13: 500; what it says is in the log",
    differs: ["outcome: 503 53400 → 500 PGRSTX00"],
    requests: ["GET /rpc/fails_with?sqlstate_=53400"],
  },
  {
    why: "999 is no status of HTTP",
    differs: ["outcome: 999 PT999 → 500 PGRSTX00"],
    requests: ["GET /rpc/fails_with?sqlstate_=PT999"],
  },

  // Other words and headers.
  {
    why: "a failing row is not shown: functions with more rights than the caller may have filled it",
    differs: ["details"],
    requests: [
      "POST /prizes, prefer return=representation, body [{}]",
      "POST /moments, prefer return=representation, body {}",
      'POST /moments?columns=id,made, prefer return=representation, missing=null, body [{"id":5}]',
      'POST /films, prefer return=representation, body {"id":52,"title":null}',
      'POST /films, prefer return=representation, body {"id":52,"title":"Early","year":1700}',
      "POST /prizes, prefer return=representation, content-type: application/x-www-form-urlencoded, body ",
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
    why: "a column is looked up before Postgres is asked: its table has the name that the client knows",
    differs: ["message"],
    requests: [
      "GET /films?select=title,studios(nowhere)",
      'POST /people?on_conflict=nowhere, prefer return=representation, resolution=merge-duplicates, body {"id":1,"name":"x"}',
      'POST /rpc/films_of?select=nowhere, body {"director":3}',
    ],
  },
  {
    why: "and the hint is our own",
    differs: ["hint"],
    requests: ["GET /films?select=title,studios&order=id", "GET /rpc/films_of?director=3&director=eq.3"],
  },
  {
    why: "405 comes with the methods that there are, as HTTP wants it",
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
    why: "405 comes with the methods that there are, as HTTP wants it",
    differs: ["allow: null → OPTIONS,GET,HEAD,POST,PATCH,DELETE"],
    requests: ['PUT /nothing_but?word=eq.x, body {"word":"x","amount":1}'],
  },
  {
    why: "405 comes with the methods that there are, as HTTP wants it",
    differs: ["allow: null → OPTIONS,GET,HEAD,POST"],
    requests: [
      'PUT /rpc/add_them, body {"a":1,"b":2}',
      'PATCH /rpc/add_them, body {"a":1,"b":2}',
      "DELETE /rpc/add_them",
    ],
  },
  {
    why: "12 encodes what is not ASCII twice",
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
    why: "and leaves out the Location of such a table",
    differs: ["location"],
    requests: ['POST /日本, prefer return=headers-only, body {"名前":"本"}'],
  },
  {
    why: "12 joins the values of a parameter that comes twice, adds = to one without, and has another order: that is another address",
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
    why: "all counts of what was written are exact",
    differs: ["content-range: */* → */1"],
    requests: ['POST /prizes, prefer count=planned, body [{"id":3,"name":"Bear"}]'],
  },
  {
    why: "all counts of what was written are exact",
    differs: ["content-range: 0-0/* → 0-0/1"],
    requests: ['PATCH /films?id=eq.1, prefer count=planned, body {"score":9}'],
  },
  {
    why: "the rows that were changed are numbered, not those that are shown",
    differs: ["content-range: 0-2/* → 0-5/*"],
    requests: [
      'PATCH /films?select=id,studios!inner(name)&studios.name=eq.Toho&order=id, prefer return=representation, body {"score":9}',
    ],
  },

  // Other bodies.
  {
    why: "CSV has a line of names for no rows too, backslashes that are not doubled, and JSON as it is sent elsewhere",
    differs: ["body"],
    requests: [
      "GET /films?id=eq.77, accept: text/csv",
      "GET /films?select=id,title,tags,data,notes,is_colour,released&order=id, accept: text/csv",
      "GET /films?select=title,posters(colour)&order=id, accept: text/csv",
    ],
  },
  {
    why: "what was deleted is shown in the order that was asked for",
    differs: ["body"],
    requests: ["DELETE /tags?name=in.(red,green)&select=n:name&order=name, prefer return=representation"],
  },
  {
    why: "a function that gives no row gives null, and not an object of nulls (PostgREST's issue 3694)",
    differs: ["content-range: 0-0/* → */*", "body"],
    requests: [
      "GET /rpc/no_film",
      "GET /rpc/home_of?id=2",
      "POST /rpc/no_film, body {}",
      'POST /rpc/rename_film?select=id,title, body {"id":77,"title":"New"}',
    ],
  },
  {
    why: "and so does one whose row the filters take away: 12 counts it all the same",
    differs: ["content-range: 0-0/* → */*"],
    requests: ["GET /rpc/one_film?id=eq.2"],
  },
  {
    why: "so there is no single row",
    differs: ["outcome: 200 → 406 PGRST116"],
    requests: ["POST /rpc/no_film?select=id, accept: application/vnd.pgrst.object+json, body {}"],
  },
];
