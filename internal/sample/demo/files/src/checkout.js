import { priceOf } from "./prices.js";
import { shippingFor } from "./shipping.js";

// checkout prices the cart and stores the order as "open".
export async function checkout(cart, address, orders) {
  const lines = cart.map((l) => ({ ...l, cents: priceOf(l.sku) * l.quantity }));
  const goods = lines.reduce((sum, l) => sum + l.cents, 0);
  let shipping = shippingFor(address, lines);
  if (address.changed) {
    // runs a second time here when the address was changed
    shipping += shippingFor(address, lines);
  }
  return orders.create({ lines, goods, shipping, total: goods + shipping, state: "open" });
}
