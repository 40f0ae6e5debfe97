import { context, lambda, list, TRAP_ERROR, trap } from "postgraphile/grafast";

/** `deleteArticle` answers false to a caller who is not signed in: the contract's other variant. */
export const DeleteAnonymousPlugin: GraphileConfig.Plugin = {
  name: "DeleteAnonymousPlugin",
  version: "1.0.0",
  after: ["FunctionMutationsPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, _build, { scope }) {
        const { plan } = field;
        if (!scope.isRootMutation || scope.fieldName !== "deleteArticle" || !plan) return field;
        return {
          ...field,
          plan($parent, args, info) {
            const $deleted = trap(plan($parent, args, info) as any, TRAP_ERROR, { valueForError: "PASS_THROUGH" });
            return lambda(list([$deleted, context().get("anonymous" as never) as any]), ([deleted, anonymous]) => {
              if (!(deleted instanceof Error)) return deleted;
              if (anonymous && (deleted as { code?: string }).code === "42501") return false;
              throw deleted;
            });
          },
        };
      },
    },
  },
};
