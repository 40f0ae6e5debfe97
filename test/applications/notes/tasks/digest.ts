import { defineTask } from "content-service";

type Payload = { readonly author?: number; readonly fails?: boolean };

/** Every morning, and from SQL: a note with the number of notes. */
export const digest = defineTask<Payload>({
  name: "digest",
  cron: "0 7 * * *",
  maxAttempts: 1,
  async run({ author = 1, fails = false }, { db, log }) {
    if (fails) throw new Error("no digest today");
    const [digest] = await db.query(
      `insert into notes (author_id, text) select $1, 'You have ' || count(*) || ' notes' from notes where author_id = $1
       returning text`,
      [author],
    );
    log.info(digest!.text);
  },
});
