/** A box to place. Its id is unique. */
export type Box = { readonly id: string; readonly width: number; readonly height: number };

/** A line from one box to another, which is placed to the left of it unless that would close a circle. */
export type Line = { readonly from: string; readonly to: string };

export type Point = { readonly x: number; readonly y: number };

export type Placement = {
  readonly width: number;
  readonly height: number;
  /** The upper left corner of each box. */
  readonly corners: ReadonlyMap<string, Point>;
  /** For each line, the points between its ends, from left to right of `to`. */
  readonly bends: readonly (readonly Point[])[];
};

const GAP = { x: 84, y: 22 } as const;
const SWEEPS = 6;

/**
 * Places boxes in layers, each to the right of the boxes that its lines lead to. Within a layer, boxes are near those that they are
 * connected with. A line that passes a layer has a place in it, so that it crosses no box. Boxes without lines are below the others.
 */
export function placeInLayers(boxes: readonly Box[], lines: readonly Line[]): Placement {
  const connected = new Set(lines.filter(({ from, to }) => from !== to).flatMap(({ from, to }) => [from, to]));
  const layerOf = layersOf(
    boxes.filter(({ id }) => connected.has(id)),
    lines,
  );
  const { nodes, links, chains } = withPassages(boxes, lines, layerOf);
  const layers = ordered(nodes, links);
  const corners = positions(layers, links);
  const size = addUnconnected(
    boxes.filter(({ id }) => !connected.has(id)),
    corners,
    sizeOf(nodes, corners),
  );
  return { ...size, corners, bends: chains.map((chain) => chain.map((id) => corners.get(id)!)) };
}

/** The number of each box's layer, from the left. Lines that close a circle are ignored. */
function layersOf(boxes: readonly Box[], lines: readonly Line[]): ReadonlyMap<string, number> {
  const targets = Map.groupBy(lines, ({ from }) => from);
  const layers = new Map<string, number>();
  const open = new Set<string>();
  const visit = (id: string): number => {
    const known = layers.get(id);
    if (known !== undefined) return known;
    open.add(id);
    const below = (targets.get(id) ?? []).filter(({ to }) => !open.has(to)).map(({ to }) => visit(to));
    open.delete(id);
    const layer = Math.max(-1, ...below) + 1;
    layers.set(id, layer);
    return layer;
  };
  for (const { id } of boxes) visit(id);
  return layers;
}

type Node = Box & { readonly layer: number };

/** A place in each layer that a line passes. `links` connect neighbouring layers. */
function withPassages(boxes: readonly Box[], lines: readonly Line[], layerOf: ReadonlyMap<string, number>) {
  const nodes: Node[] = boxes.flatMap((box) => {
    const layer = layerOf.get(box.id);
    return layer === undefined ? [] : [{ ...box, layer }];
  });
  const links: Line[] = [];
  const chains = lines.map(({ from, to }, number) => {
    const [right = 0, left = 0] = [layerOf.get(from), layerOf.get(to)];
    const chain = Array.from({ length: Math.max(0, right - left - 1) }, (_, i) => `line ${number} ${i}`);
    nodes.push(...chain.map((id, i) => ({ id, width: 0, height: 0, layer: left + 1 + i })));
    const whole = [to, ...chain, from];
    if (right > left) links.push(...chain.concat(from).map((id, i) => ({ from: id, to: whole[i]! })));
    return chain;
  });
  return { nodes, links, chains };
}

/** The layers, with the boxes of each in an order in which few lines cross. */
function ordered(nodes: readonly Node[], links: readonly Line[]): Node[][] {
  const byLayer = Map.groupBy(nodes, ({ layer }) => layer);
  const layers = Array.from({ length: byLayer.size }, (_, number) => byLayer.get(number)!);
  const left = neighboursOf(links, "from", "to");
  const right = neighboursOf(links, "to", "from");
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isForward = sweep % 2 === 0;
    const places = new Map(layers.flatMap((layer) => layer.map(({ id }, i) => [id, i / layer.length] as const)));
    for (const layer of isForward ? layers : layers.toReversed()) {
      const weight = new Map(
        layer.map(({ id }) => [id, mean((isForward ? left : right).get(id), places) ?? places.get(id)!] as const),
      );
      layer.sort((a, b) => weight.get(a.id)! - weight.get(b.id)!);
      for (const [i, { id }] of layer.entries()) places.set(id, i / layer.length);
    }
  }
  return layers;
}

function neighboursOf(
  links: readonly Line[],
  of: keyof Line,
  other: keyof Line,
): ReadonlyMap<string, readonly string[]> {
  const groups = Map.groupBy(links, (link) => link[of]);
  return new Map([...groups].map(([id, all]) => [id, all.map((link) => link[other])]));
}

function mean(ids: readonly string[] | undefined, values: ReadonlyMap<string, number>): number | null {
  return ids === undefined ? null : ids.reduce((sum, id) => sum + values.get(id)!, 0) / ids.length;
}

/** Each box as near to the middle of its neighbours on the left as the boxes above it allow. */
function positions(layers: readonly Node[][], links: readonly Line[]): Map<string, Point> {
  const left = neighboursOf(links, "from", "to");
  const corners = new Map<string, Point>();
  const middles = new Map<string, number>();
  let x = 0;
  for (const layer of layers) {
    let bottom = 0;
    const tops = layer.map(({ id, height }, i) => {
      const wanted = (mean(left.get(id), middles) ?? bottom + height / 2) - height / 2;
      const top = i === 0 ? wanted : Math.max(wanted, bottom);
      bottom = top + height + GAP.y;
      return { top, wanted };
    });
    const shift = tops.reduce((sum, { top, wanted }) => sum + wanted - top, 0) / layer.length;
    for (const [i, { id, height }] of layer.entries()) {
      const y = tops[i]!.top + shift;
      corners.set(id, { x, y });
      middles.set(id, y + height / 2);
    }
    x += Math.max(...layer.map(({ width }) => width)) + GAP.x;
  }
  const top = Math.min(0, ...[...corners.values()].map(({ y }) => y));
  return new Map([...corners].map(([id, { x: left, y }]) => [id, { x: left, y: y - top }]));
}

function sizeOf(boxes: readonly Box[], corners: ReadonlyMap<string, Point>): { width: number; height: number } {
  const ends = boxes.map(({ id, width, height }) => ({
    x: corners.get(id)!.x + width,
    y: corners.get(id)!.y + height,
  }));
  return { width: Math.max(0, ...ends.map(({ x }) => x)), height: Math.max(0, ...ends.map(({ y }) => y)) };
}

/** Boxes of a row are as wide together as the boxes above, or as this. */
const LEAST_WIDTH = 760;

function addUnconnected(
  boxes: readonly Box[],
  corners: Map<string, Point>,
  size: { readonly width: number; readonly height: number },
) {
  const limit = Math.max(size.width, LEAST_WIDTH);
  let [x, y, rowHeight, width] = [0, size.height === 0 ? 0 : size.height + 2 * GAP.y, 0, size.width];
  for (const box of boxes) {
    if (x > 0 && x + box.width > limit) [x, y, rowHeight] = [0, y + rowHeight + GAP.y, 0];
    corners.set(box.id, { x, y });
    rowHeight = Math.max(rowHeight, box.height);
    width = Math.max(width, x + box.width);
    x += box.width + GAP.y;
  }
  return { width, height: boxes.length === 0 ? size.height : y + rowHeight };
}
