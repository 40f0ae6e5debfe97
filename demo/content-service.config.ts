import { DIALECTS, defineConfig, z } from "content-service";
import { articles } from "./resources/articles.ts";
import { comments } from "./resources/comments.ts";
import { users } from "./resources/users.ts";

const dialects = z
  .string()
  .transform((text) => text.split(",").flatMap((name) => name.trim() || []))
  .pipe(z.array(z.enum(DIALECTS, { error: `must be a list of ${DIALECTS.join(", ")}` })));

export default defineConfig({
  settings: { AUTH_USER_ID: "bigint", USERS_EMAIL: "public", GRAPHQL_EXTRAS: "aggregates, bulk, changes" },
  environment: {
    USERS_WRITE: z
      .enum(["open", "owner"], { error: "must be open or owner" })
      .optional()
      .describe(
        "Who may change and delete users at /users. open: every caller, even without credentials. owner: users only themselves, admins all users. When unset, open on the embedded database, otherwise owner.",
      ),
    USERS_DIALECT: dialects
      .default([])
      .describe(
        "Response formats (dialects) of the resources for clients that name none in Prefer, separated by commas: detail, flat, envelope, partial, case.",
      ),
    GRAPHQL_DELETE_ANONYMOUS: z
      .enum(["error", "false-result"], { error: "must be error or false-result" })
      .default("error")
      .describe(
        "What deleteArticle returns to anonymous callers. error (the default): the error AUTH_REQUIRED. false-result: false, without an error.",
      ),
    GRAPHQL_TIME_SCALAR: z
      .enum(["Time", "DateTime"], { error: "must be Time or DateTime" })
      .default("Time")
      .describe("Name of the GraphQL scalar for timestamps: Time (the default) or DateTime."),
    GRAPHQL_INTERNAL_STATUS: z
      .enum(["200", "400"], { error: "must be 200 or 400" })
      .default("200")
      .describe("HTTP status of a GraphQL response with an INTERNAL_ERROR: 200 (the default) or 400."),
  },
  seedAccounts: "ada, bob, admin (carol is disabled), password Correct-Horse-7!",
  resources({ USERS_WRITE }, { embedded, hasAccounts }) {
    // Another database may have tables of these names.
    if (!hasAccounts) return [];
    const isOpen = (USERS_WRITE ?? (embedded ? "open" : "owner")) === "open";
    return [{ ...users, editor: { role: "users_editor", isOpen } }, articles, comments];
  },
  dialects: ({ USERS_DIALECT }) => USERS_DIALECT,
  graphqlInternalStatus: ({ GRAPHQL_INTERNAL_STATUS }) => (GRAPHQL_INTERNAL_STATUS === "400" ? 400 : 200),
  async graphql({ GRAPHQL_DELETE_ANONYMOUS, GRAPHQL_TIME_SCALAR }) {
    const { pluginsOf } = await import("./plugins/index.ts");
    return { plugins: pluginsOf({ deleteAnonymous: GRAPHQL_DELETE_ANONYMOUS, timeScalar: GRAPHQL_TIME_SCALAR }) };
  },
});
