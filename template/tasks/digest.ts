import { defineTask } from "content-service";

/** Every morning, and from SQL: `select tasks.run('digest', '{}')` */
export const digest = defineTask({
  name: "digest",
  cron: "0 7 * * *",
  async run(_payload, { db, log }) {
    const [digest] = await db.query(
      "select count(*)::int as notes from notes where created_at > now() - interval '1 day'",
    );
    log.info(digest, "notes of the last day");
  },
});
