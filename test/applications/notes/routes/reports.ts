import { defineRoute, z } from "content-service";

const Note = z.object({ text: z.string(), tags: z.array(z.string()).default([]) });

/** The number of notes of a user, and a new note. */
export const reports = (limit: number) =>
  defineRoute({
    path: "/reports/:author",
    methods: {
      async GET(request, _response, { caller, db }) {
        const [report] = await db.query(
          "select count(*)::int as notes, max(created_at) as latest, array_agg(id) as ids from notes where author_id = $1",
          [request.params.author],
        );
        return { ...report, limit, role: caller.role };
      },
      async POST(request, response, { db, log }) {
        const { text, tags } = Note.parse(request.body);
        const [[note], [count]] = (await db.batch([
          { text: "insert into notes (text, tags) values ($1, $2) returning id, text, tags", values: [text, tags] },
          { text: "select count(*)::int as notes from notes" },
        ])) as [Record<string, unknown>[], Record<string, unknown>[]];
        log.info({ note: note!.id }, "a note was added");
        response.status(201);
        return { ...note, ...count };
      },
      async DELETE(request, _response, { db }) {
        await db.query("delete from notes where id = $1", [request.params.author]);
      },
    },
    openapi: { get: { summary: "How many notes a user has.", operationId: "readReport" } },
  });
