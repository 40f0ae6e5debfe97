import { type ComparedRequest, get, head, options, patch, post, put, remove } from "./request.ts";

const profile = (name: string) => ({ headers: { "accept-profile": name } });
const written = (name: string) => ({ headers: { "content-profile": name } });

/** Callers, schemas and methods. */
export const SURROUNDINGS: readonly ComparedRequest[] = [
  // Callers.
  get("/diaries"),
  get("/diaries?order=id", { as: "ada" }),
  get("/diaries?order=id", { as: "bob" }),
  get("/diaries?id=eq.2", { as: "ada" }),
  post("/diaries", { id: 9, note: "new" }, { as: "ada", prefer: "return=representation" }),
  post("/diaries", { id: 9, owner: "2", note: "not mine" }, { as: "ada" }),
  post("/diaries", { id: 9, note: "new" }),
  patch("/diaries?id=eq.2", { note: "not mine" }, { as: "ada", prefer: "return=representation" }),
  patch("/diaries?id=eq.1", { owner: "2" }, { as: "ada" }),
  remove("/diaries?id=gt.0&order=id", { as: "ada", prefer: "return=representation" }),
  get("/staff"),
  get("/staff", { as: "ada" }),
  get("/members?select=id,name&order=id"),
  get("/members"),
  get("/members?select=password"),
  get("/members?password=eq.secret&select=id"),
  post("/members?select=id,name", { id: 3, name: "New" }, { prefer: "return=representation" }),
  post("/members", { id: 3, name: "New" }, { prefer: "return=representation" }),
  post("/members", { id: 3, name: "New" }),
  patch("/members?id=eq.1", { name: "New" }),
  remove("/members?id=eq.1"),
  get("/films?select=id&limit=1&order=id", { as: "forged" }),
  put("/diaries?id=eq.1", { id: 1, owner: "1", note: "mine" }, { as: "ada", prefer: "return=representation" }),
  put("/diaries?id=eq.2", { id: 2, owner: "1", note: "mine" }, { as: "ada", prefer: "return=representation" }),
  post("/diaries", { id: 2, owner: "1" }, { as: "ada", prefer: "resolution=merge-duplicates" }),

  // The pre-request function.
  get("/films?select=id&id=eq.1", { headers: { "x-forbidden": "yes" } }),
  get("/films?select=id&id=eq.1", { as: "ada", headers: { "x-forbidden": "yes" } }),
  post("/tags", { name: "x" }, { headers: { "x-forbidden": "yes" } }),
  get("/films?select=premiered&id=eq.1", { headers: { "x-tokyo": "yes" } }),
  post("/rpc/send_headers", {}, { headers: { "x-tokyo": "yes" } }),

  // Schemas.
  get("/films?order=id", profile("archive")),
  get("/films?select=id&order=id&limit=1", profile("cinema")),
  get("/boxes", profile("archive")),
  get("/films", profile("vault")),
  get("/films", profile("nowhere")),
  get("/films?select=id&order=id", written("archive")),
  head("/films", profile("archive")),
  post("/boxes", { id: 1, label: "x" }, { ...written("archive"), prefer: "return=representation" }),
  post("/boxes", { id: 1, label: "x" }, written("vault")),
  patch("/films?id=eq.1", { title: "x" }, { ...written("archive"), prefer: "return=representation" }),
  remove("/films?id=eq.1", { ...written("archive"), prefer: "return=representation" }),

  // Methods.
  ...[
    "/films",
    "/nothing_but",
    "/directors",
    "/titles",
    "/film_years",
    "/announcements",
    "/colour_films",
    "/visits",
    "/counters",
    "/rpc/all_films",
    "/rpc/nowhere",
  ].map((path) => options(path)),
  options("/boxes", profile("archive")),
];
