type Behavior = GraphileBuild.Build["behavior"];
type Matches = Behavior["entityMatches"];

/**
 * Remembers which behaviors match. PostGraphile parses the behaviors of an entity for each question, and most entities have the same:
 * a fifth of the time in which a schema is built.
 */
export const RememberedBehaviorPlugin: GraphileConfig.Plugin = {
  name: "RememberedBehaviorPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      build(build) {
        let behavior: Behavior;
        // It is set after all hooks of this kind, and then frozen.
        Object.defineProperty(build, "behavior", {
          enumerable: true,
          get: () => behavior,
          set(made: Behavior) {
            behavior = made;
            behavior.entityMatches = remembered(made, made.entityMatches.bind(made) as Matches);
          },
        });
        return build;
      },
    },
  },
};

function remembered(behavior: Behavior, matches: Matches): Matches {
  const known = new Map<string, Map<string, boolean | undefined>>();
  return (type, entity, filter) => {
    const question = `${type} ${filter}`;
    const answers = known.get(question) ?? new Map<string, boolean | undefined>();
    known.set(question, answers);
    const { behaviorString } = behavior.getBehaviorForEntity(type, entity);
    if (!answers.has(behaviorString)) answers.set(behaviorString, matches(type, entity, filter));
    return answers.get(behaviorString);
  };
}
