import type {} from "content-service/postgraphile";

/** The scalar of timestamps is named DateTime instead of Time: the second variant of the contract. */
export const DateTimePlugin: GraphileConfig.Plugin = {
  name: "DateTimePlugin",
  version: "1.0.0",
  inflection: {
    replace: {
      builtin: (previous, _options, name) => (name === "Datetime" ? "DateTime" : previous!(name)),
    },
  },
};
