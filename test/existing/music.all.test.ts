import { generateKeyPairSync } from "node:crypto";
import jwt from "jsonwebtoken";
import { testApplication } from "./application-tests.ts";
import { KEYLESS } from "./deliveries.ts";

const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const listener = (n: number, country: string) => ({
  role: "music_Listener",
  sub: `00000000-0000-4000-8000-00000000000${n}`,
  country,
});

testApplication({
  files: ["applications/music.sql"],
  prefix: "music_",
  login: "music_Gateway",
  feed: "music_feed",
  schemas: ["catalog", "library"],
  settings: {
    DB_SCHEMAS: "catalog, library",
    DB_ANON_ROLE: "none",
    JWT_SECRET: JSON.stringify(publicKey.export({ format: "jwk" })),
  },
  sign: (claims) => jwt.sign(claims, privateKey, { algorithm: "ES256" }),
  callers: {
    "a caller without a token": undefined,
    "a listener in Germany": listener(1, "DE"),
    "a listener in Japan": listener(2, "JP"),
    "a listener who hides": listener(8, "FR"),
    "a label": { role: "music_Label", label: 1 },
  },
  roleOf: (claims: any) => claims?.role ?? null,
  functions: [
    {
      as: "a listener in Japan",
      rest: "rpc/search_tracks?words=rain&select=title",
      gql: '{ searchTracks(words: "rain", first: 50) { edges { node { title } } } }',
      result: ({ searchTracks }) => searchTracks.edges.map(({ node }: any) => node),
    },
    {
      as: "a listener in Germany",
      rest: "rpc/similar_albums?album=4&select=id,seconds:albums_seconds",
      gql: '{ similarAlbums(album: "4", first: 50) { edges { node { id seconds } } } }',
      result: ({ similarAlbums }) =>
        similarAlbums.edges.map(({ node }: any) => ({ id: Number(node.id), seconds: Number(node.seconds) })),
    },
    {
      as: "a listener in Germany",
      schema: "library",
      rest: "rpc/my_top?n=2",
      gql: "{ libraryMyTop(n: 2) { edges { node { isrc times } } } }",
      result: ({ libraryMyTop }) =>
        libraryMyTop.edges.map(({ node }: any) => ({ isrc: node.isrc, times: Number(node.times) })),
    },
  ],
  steps: [
    {
      as: "a listener in Germany",
      rest: "POST playlists?select=owner_id,visibility,length",
      schema: "library",
      body: { title: "Mine" },
      status: 201,
      json: [{ owner_id: "00000000-0000-4000-8000-000000000001", visibility: "private", length: 0 }],
    },
    {
      as: "a listener in Germany",
      gql: 'mutation { createLibraryPlaylistTrack(input: { playlistId: "00000000-0000-4000-9000-000000000008", isrc: "DEX010000011" }) { position playlist { length } } }',
      data: { createLibraryPlaylistTrack: { position: "6", playlist: { length: 6 } } },
    },
    {
      as: "a listener in Japan",
      rest: "POST playlist_tracks",
      schema: "library",
      body: { playlist_id: "00000000-0000-4000-9000-000000000008", isrc: "DEX010000011" },
      status: 403,
    },
    {
      as: "a listener in Germany",
      rest: "POST playlist_tracks",
      schema: "library",
      body: { playlist_id: "00000000-0000-4000-9000-000000000008", isrc: "no" },
      status: 400,
    },
    {
      as: "a listener in Japan",
      rest: "POST follows",
      schema: "library",
      body: { followed: "00000000-0000-4000-8000-000000000002" },
      status: 400,
    },
    {
      as: "a listener in Japan",
      rest: "POST follows?select=followed",
      schema: "library",
      body: { followed: "00000000-0000-4000-8000-000000000005" },
      status: 201,
      json: [{ followed: "00000000-0000-4000-8000-000000000005" }],
    },
    {
      as: "a listener in Japan",
      gql: 'mutation { librarySharePlaylist(id: "00000000-0000-4000-9000-000000000001") { visibility } }',
    },
    {
      as: "a label",
      rest: "PATCH albums?id=eq.2&select=title",
      body: { title: "Second" },
      status: 200,
      json: [{ title: "Second" }],
    },
    { as: "a label", rest: "PATCH albums?id=eq.1&select=title", body: { title: "First" }, status: 200, json: [] },
    { as: "a label", rest: "DELETE deliveries?label_id=eq.1&select=is_done", status: 200, json: [{ is_done: false }] },
    { as: "a label", rest: "GET playlists", schema: "library", status: 403 },
    { as: "a caller without a token", rest: "GET albums", status: 401 },
  ],
  changes: [
    {
      table: "catalog.albums",
      as: "a listener in Germany",
      sql: [
        "insert into catalog.albums (id, artist_id, title, countries) values (900, 1, 'Live', '{DE}')",
        "update catalog.albums set title = 'Live!' where id = 900",
        "delete from catalog.albums where id = 900",
      ],
      refused: { DELETE: ["old rows are logged without"] },
    },
    {
      table: "catalog.tracks",
      as: "a listener in Germany",
      sql: [
        "insert into catalog.tracks (isrc, album_id, position, title, seconds) values ('DEX019999999', 1, 9, 'Hidden track', 10)",
        "update catalog.tracks set seconds = 11 where isrc = 'DEX019999999'",
        "delete from catalog.tracks where isrc = 'DEX019999999'",
      ],
    },
    {
      table: "library.follows",
      as: "a listener in Japan",
      sql: [
        "insert into library.follows values ('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000002')",
        "update library.follows set since = '2026-11-11' where follower = '00000000-0000-4000-8000-000000000007'",
        "delete from library.follows where follower = '00000000-0000-4000-8000-000000000007' and since = '2026-11-11'",
      ],
    },
    {
      table: "library.plays",
      as: "a listener in Germany",
      sql: [
        "insert into library.plays values ('00000000-0000-4000-8000-000000000001', '2026-11-22', 'DEX010000011', 5)",
        "update library.plays set seconds = 6 where listener_id = '00000000-0000-4000-8000-000000000001' and played_at = '2026-11-22'",
        "delete from library.plays where listener_id = '00000000-0000-4000-8000-000000000001' and played_at = '2026-11-22'",
      ],
    },
    {
      table: "catalog.deliveries",
      as: "a label",
      sql: [
        "insert into catalog.deliveries (label_id, row) values (1, '{}')",
        "update catalog.deliveries set is_done = true where row = '{}'",
        "delete from catalog.deliveries where row = '{}'",
      ],
      refused: KEYLESS,
    },
  ],
  findings: {
    "changes-not-published table catalog.deliveries": "it has no key",
    "deletes-not-delivered table catalog.albums": "its policy reads a column beside the key",
    "deletes-not-delivered table library.listeners": "its policy reads a column beside the key",
    "deletes-not-delivered table library.playlists": "its policy reads a column beside the key",
    "check-without-message constraint follows_check on library.follows": "it has no comment",
    "check-without-message constraint tracks_seconds_check on catalog.tracks": "it has no comment",
    "table-without-primary-key table catalog.deliveries": "rows as a label delivers them",
  },
});
