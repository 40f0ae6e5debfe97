import { defineConfig, defineRoute } from "content-service";

const count = defineRoute({
  path: "/count",
  methods: {
    GET: async (_request, _response, { db }) => (await db.query("select count(*)::int as notes from notes"))[0],
  },
});

export default defineConfig({ routes: [count] });
