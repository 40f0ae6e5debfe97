import { definePart, defineTask } from "content-service";

/** Every morning, and from SQL: `select tasks.run('digest', '{}')` */
const task = defineTask({
  name: "digest",
  cron: "0 7 * * *",
  async run(_payload, { db, log }) {
    const [digest] = await db.query(
      "select count(*)::int as notes from notes where created_at > now() - interval '1 day'",
    );
    log.info(digest, "notes of the last day");
  },
});

/** Delete this folder and its line in content-service.config.ts, and the rest works as before. `PARTS=-digest` leaves it out too. */
export const digest = definePart({
  name: "digest",
  about: "counts the notes of the last day",
  tasks: [task],
});
