import type { Context } from "content-service";
import { Router } from "express";

/** A router of Express: every note as a line of text. */
export const feed = Router();

feed.get("/feed.txt", async (_request, response) => {
  const { db } = (await response.locals.context()) as Context;
  const notes = await db.query<{ text: string }>("select text from notes order by id");
  response.type("text/plain").send(notes.map(({ text }) => `${text}\n`).join(""));
});

feed.get("/feed/broken", async (_request, response) => {
  const { db } = (await response.locals.context()) as Context;
  await db.query("insert into notes (text) values (repeat('x', 101))");
});

const MISTAKES: Readonly<Record<string, string>> = { values: "select $1::int", commands: "select 1; select 2" };

feed.get("/feed/mistakes/:of", async (request, response) => {
  const { db } = (await response.locals.context()) as Context;
  await db.query(MISTAKES[request.params.of]!);
});
