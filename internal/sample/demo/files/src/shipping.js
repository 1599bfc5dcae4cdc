import zones from "../config/shipping.json" with { type: "json" };

// shippingFor gives the charge in cents for an address and the weight of a cart.
export function shippingFor(address, lines) {
  const zone = zones.find((z) => z.countries.includes(address.country));
  if (!zone) throw new Error(`we do not ship to ${address.country}`);
  const grams = lines.reduce((sum, l) => sum + l.grams * l.quantity, 0);
  const step = zone.steps.find((s) => grams <= s.upTo);
  return (step ?? zone.steps.at(-1)).cents;
}
