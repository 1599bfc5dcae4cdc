// The cart lives in the browser. Prices in it are for display only: the server
// prices the cart again at checkout.

const KEY = "cart";

export function load() {
  return JSON.parse(localStorage.getItem(KEY) || "[]");
}

export function save(lines) {
  localStorage.setItem(KEY, JSON.stringify(lines));
}

export function add(lines, sku, quantity = 1) {
  const line = lines.find((l) => l.sku === sku);
  if (line) line.quantity += quantity;
  else lines.push({ sku, quantity, wrapped: false });
  return lines;
}

export function weight(lines, products) {
  return lines.reduce((grams, l) => grams + products[l.sku].grams * l.quantity, 0);
}
