// The fleet picture under pointer, wheel, fingers and keys: hover, zoom, pan, and a cursor that goes from cell to cell.

const CLICK_PIXELS = 4;
const WHEEL_STEP = 1.0015;
const KEY_ZOOM = 1.6;
const KEY_PAN = 48;

/** Lets a person move over and in `picture`. `onPoint(cursor)`, `onOpen(cursor)`, `onView()` are told. */
export class Pointer {
  constructor(canvas, picture, { onPoint, onOpen, onView }) {
    Object.assign(this, { canvas, picture, onPoint, onOpen, onView, cursor: null, fingers: new Map(), dragged: 0 });
    const listen = (type, take, options) => canvas.addEventListener(type, take.bind(this), options);
    listen("pointerdown", this.down);
    listen("pointermove", this.move);
    listen("pointerup", this.up);
    listen("pointercancel", this.up);
    listen("pointerleave", this.leave);
    listen("wheel", this.wheel, { passive: false });
    listen("dblclick", (event) => this.zoomTo(event, event.shiftKey ? 0.5 : 2));
    listen("keydown", this.key);
    listen("blur", () => this.point(null, false));
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  point(cursor, isKeyed) {
    if (JSON.stringify(cursor) === JSON.stringify(this.cursor)) return;
    this.cursor = cursor;
    this.isKeyed = isKeyed;
    this.onPoint(cursor);
  }

  down(event) {
    this.fingers.set(event.pointerId, this.place(event));
    this.dragged = 0;
    if (this.picture.zoom > 1 || this.fingers.size > 1) this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const before = this.fingers.get(event.pointerId);
    const now = this.place(event);
    if (!before) {
      this.point(this.picture.at(...now), false);
      return;
    }
    if (this.fingers.size === 2) this.pinch(event.pointerId, before, now);
    else if (this.picture.zoom > 1) this.pan(now[0] - before[0], now[1] - before[1]);
    this.dragged += Math.hypot(now[0] - before[0], now[1] - before[1]);
    this.fingers.set(event.pointerId, now);
  }

  pinch(id, before, now) {
    const other = [...this.fingers].find(([one]) => one !== id)[1];
    const span = (a) => Math.max(Math.hypot(a[0] - other[0], a[1] - other[1]), 1);
    this.picture.zoomAt(span(now) / span(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    this.onView();
  }

  pan(dx, dy) {
    const { picture } = this;
    picture.move(picture.zoom, picture.left - dx / picture.zoom, picture.top - dy / picture.zoom);
    this.onView();
  }

  up(event) {
    const wasAt = this.fingers.get(event.pointerId);
    this.fingers.delete(event.pointerId);
    if (event.type !== "pointerup" || !wasAt || this.dragged > CLICK_PIXELS || event.button !== 0) return;
    const cursor = this.picture.at(...this.place(event));
    if (cursor) this.onOpen(cursor);
  }

  leave() {
    if (!this.fingers.size) this.point(null, false);
  }

  /** The wheel scrolls the page; with Ctrl or ⌘ (as a pinch on a touchpad comes) it zooms. */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoomTo(event, WHEEL_STEP ** -Math.max(Math.min(event.deltaY, 400), -400));
  }

  zoomTo(event, factor) {
    this.picture.zoomAt(factor, ...this.place(event));
    this.onView();
  }

  /** Zoom around the cursor, else around the middle. */
  zoomBy(factor) {
    const { picture } = this;
    const [x, y] = this.cursor ? picture.box(this.cursor) : [picture.width / 2, picture.laid.height / 2];
    picture.zoomAt(factor, x, y);
    this.onView();
  }

  whole() {
    this.picture.move(1, 0, 0);
    this.onView();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.picture.isEmpty) return;
    const take = KEYS[event.key];
    if (!take || take(this, event) === false) return;
    event.preventDefault();
    event.stopPropagation();
  }

  step(right, down, isPan) {
    if (isPan) {
      this.pan(-right * KEY_PAN, -down * KEY_PAN);
      return;
    }
    this.point(this.cursor ? stepped(this.picture, this.cursor, right, down) : { block: 0, row: 0, slot: 0 }, true);
    this.follow();
  }

  /** Keep the cursor in view when zoomed in. */
  follow() {
    const { picture } = this;
    const [x, y, wide, tall] = picture.box(this.cursor);
    const over = (low, high, most) => (low < 0 ? low - 20 : high > most ? high - most + 20 : 0);
    const [dx, dy] = [over(x, x + wide, picture.width), over(y, y + tall, picture.laid.height)];
    if (dx || dy) this.pan(-dx, -dy);
  }
}

const KEYS = {
  ArrowLeft: (p, event) => p.step(-1, 0, event.shiftKey),
  ArrowRight: (p, event) => p.step(1, 0, event.shiftKey),
  ArrowUp: (p, event) => p.step(0, -1, event.shiftKey),
  ArrowDown: (p, event) => p.step(0, 1, event.shiftKey),
  "+": (p) => p.zoomBy(KEY_ZOOM),
  "=": (p) => p.zoomBy(KEY_ZOOM),
  "-": (p) => p.zoomBy(1 / KEY_ZOOM),
  0: (p) => p.whole(),
  Enter: (p) => (p.cursor ? p.onOpen(p.cursor) : false),
  Escape: (p) => (p.cursor ? p.point(null, false) : p.picture.zoom > 1 ? p.whole() : false),
};

/** The nearest cell in a direction: by where the cells are drawn, so that it is right at each level. */
function stepped(picture, cursor, right, down) {
  const [x, y, wide, tall] = picture.box(cursor);
  const [middleX, middleY] = [x + wide / 2, y + tall / 2];
  const pitch = wide + 3;
  // First its own neighbourhood, then ever further on, a little to both sides.
  for (let far = 1; far < 400; far += 1) {
    for (const aside of far === 1 ? [0] : [0, -1, 1, -2, 2]) {
      const px = middleX + right * pitch * far + (down ? aside * pitch : 0);
      const py = middleY + down * pitch * far + (right ? aside * pitch : 0);
      const found = atAnywhere(picture, px, py);
      if (found && !isSame(found, cursor) && isOnward(picture.box(found), [x, y], right, down)) return found;
    }
  }
  return cursor;
}

const isSame = (a, b) => a.block === b.block && a.row === b.row && a.slot === b.slot;
const isOnward = (box, [x, y], right, down) => (right ? (box[0] - x) * right > 0 : (box[1] - y) * down > 0);

function atAnywhere(picture, px, py) {
  const [most, low] = [picture.width * picture.zoom, picture.laid.height * picture.zoom];
  const [left, top] = [picture.left * picture.zoom, picture.top * picture.zoom];
  if (px + left < 0 || py + top < 0 || px + left > most || py + top > low) return null;
  return picture.at(px, py);
}
