type Behavior = GraphileBuild.Build["behavior"];

/**
 * Remembers which behaviors match, and the table of each codec. PostGraphile searches the tuples of all columns and parses the behaviors
 * of an entity for each question, and most entities have the same behaviors: half of the time in which the schema of 1,000 tables is
 * built.
 */
export const RememberedAnswersPlugin: GraphileConfig.Plugin = {
  name: "RememberedAnswersPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      build(build) {
        rememberTables(build as GraphileBuild.Build);
        let behavior: Behavior;
        // It is set after all hooks of this kind, and then frozen.
        Object.defineProperty(build, "behavior", {
          enumerable: true,
          get: () => behavior,
          set(made: Behavior) {
            behavior = made;
            remember(made);
          },
        });
        return build;
      },
    },
  },
};

function rememberTables(build: GraphileBuild.Build): void {
  const { pgTableResource } = build;
  let byCodec: Map<unknown, any[]> | undefined;
  build.pgTableResource = ((codec: any, isStrict = true) => {
    byCodec ??= Map.groupBy(Object.values(build.pgResources) as any[], (resource) => resource.codec);
    const [table, another] = (byCodec.get(codec) ?? []).filter(
      ({ parameters, executor, isVirtual, isUnique }) =>
        !parameters && executor === codec.executor && !(isStrict && (isVirtual || isUnique)),
    );
    // PostGraphile warns.
    return another ? pgTableResource(codec, isStrict) : (table ?? null);
  }) as typeof pgTableResource;
}

function remember(behavior: any): void {
  const tuples: Memo = new Map();
  const only = (entity: unknown) =>
    Array.isArray(entity) ? recall(entity.reduce(branch, tuples), tuples, () => entity) : entity;
  for (const method of ["getBehaviorForEntity", "getInferredBehaviorForEntity", "getOverrideBehaviorForEntity"]) {
    const get = behavior[method].bind(behavior);
    behavior[method] = (type: string, entity: unknown) => {
      // The list that PostGraphile would search for an equal tuple.
      behavior.behaviorEntities[type]?.listCache.clear();
      return get(type, only(entity));
    };
  }

  const applied: Memo = new Map();
  const apply = behavior.getPreferencesAppliedBehaviors.bind(behavior);
  behavior.getPreferencesAppliedBehaviors = (type: string, ...[inferred, override]: { behaviorString: string }[]) =>
    recall(branch(branch(applied, type), inferred!.behaviorString), override!.behaviorString, () =>
      apply(type, inferred, override),
    );

  const matches = behavior.entityMatches.bind(behavior);
  const [ofEntities, ofBehaviors]: [Memo, Memo] = [new Map(), new Map()];
  behavior.entityMatches = (type: string, entity: unknown, filter: string) =>
    recall(branch(branch(ofEntities, type), filter), only(entity), () =>
      recall(
        branch(branch(ofBehaviors, type), filter),
        behavior.getBehaviorForEntity(type, entity).behaviorString,
        () => matches(type, entity, filter),
      ),
    );
}

type Memo = Map<unknown, any>;

function recall(memo: Memo, key: unknown, make: () => unknown): any {
  if (!memo.has(key)) memo.set(key, make());
  return memo.get(key);
}

const branch = (memo: Memo, key: unknown): Memo => recall(memo, key, () => new Map());
