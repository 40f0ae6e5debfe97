/** By code units, which are the same on every computer. */
export const inOrder = <Item>(items: Iterable<Item>, textOf: (item: Item) => string): Item[] =>
  [...items]
    .map((item) => ({ item, text: textOf(item) }))
    .sort((a, b) => (a.text < b.text ? -1 : Number(a.text > b.text)))
    .map(({ item }) => item);

export const byName = <Item extends { readonly name: string }>(items: Iterable<Item>): Item[] =>
  inOrder(items, ({ name }) => name);
