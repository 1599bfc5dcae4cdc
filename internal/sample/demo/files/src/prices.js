import { products } from "./products.js";

// priceOf gives the price of one piece in cents, gift wrapping not included.
export function priceOf(sku) {
  const product = products.get(sku);
  if (!product) throw new Error(`unknown article ${sku}`);
  return product.sale ?? product.cents;
}

export const WRAPPING_CENTS = 250;
