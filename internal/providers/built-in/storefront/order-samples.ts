import type { JsonObject } from '../../normalize.ts'

// Payloads of orders, payments, returns and fulfillment in the vendor's shape, with their principal members.

const createdAt = '2026-11-10T11:10:00-05:00'
const updatedAt = '2026-11-10T11:16:31-05:00'
const orderId = 5_678_901_234_567
/** GraphQL id of an object. */
export const gid = (type: string, id: number) => `gid://shopify/${type}/${id}`
/** Address that several objects contain. */
export const address = {
  name: 'Test Buyer',
  address1: '151 O’Connor St',
  city: 'Ottawa',
  province_code: 'ON',
  zip: 'K2P 2L8',
  country_code: 'CA',
}
const customer = { id: 7_012_345_678_901, email: 'buyer@example.com', first_name: 'Test', last_name: 'Buyer' }
const lineItem = {
  id: 14_012_345_678_901,
  product_id: 8_123_456_789_012,
  variant_id: 44_123_456_789_012,
  sku: 'SHIRT-M',
  name: 'Shirt – M',
  quantity: 2,
  price: '24.50',
  requires_shipping: true,
  fulfillment_status: null,
}
const order = {
  id: orderId,
  admin_graphql_api_id: gid('Order', orderId),
  name: '#1042',
  order_number: 1042,
  created_at: createdAt,
  updated_at: updatedAt,
  processed_at: createdAt,
  cancelled_at: null,
  cancel_reason: null,
  currency: 'CAD',
  subtotal_price: '49.00',
  total_tax: '6.37',
  total_price: '55.37',
  financial_status: 'pending',
  fulfillment_status: null,
  email: 'buyer@example.com',
  test: false,
  customer,
  shipping_address: address,
  line_items: [lineItem],
  tags: '',
}
const draftOrder = {
  id: 1_123_456_789_012,
  admin_graphql_api_id: gid('DraftOrder', 1_123_456_789_012),
  name: '#D17',
  status: 'open',
  currency: 'CAD',
  subtotal_price: '49.00',
  total_tax: '6.37',
  total_price: '55.37',
  invoice_url: 'https://acme.example.com/invoices/17',
  invoice_sent_at: null,
  completed_at: null,
  order_id: null,
  customer,
  line_items: [lineItem],
  created_at: createdAt,
  updated_at: updatedAt,
}
const checkout = {
  id: 31_234_567_890_123,
  token: 'c1-9f1c2d7a',
  cart_token: 'hWN2Hiw3',
  email: 'buyer@example.com',
  currency: 'CAD',
  subtotal_price: '49.00',
  total_tax: '6.37',
  total_price: '55.37',
  completed_at: null,
  abandoned_checkout_url: 'https://acme.example.com/checkouts/c1-9f1c2d7a/recover',
  customer,
  line_items: [lineItem],
  created_at: createdAt,
  updated_at: updatedAt,
}
const cart = {
  id: 'hWN2Hiw3',
  token: 'hWN2Hiw3',
  note: null,
  created_at: createdAt,
  updated_at: updatedAt,
  line_items: [{ ...lineItem, key: 'hWN2Hiw3', line_price: '49.00', total_discount: '0.00' }],
}
const transaction = {
  id: 6_345_678_901_234,
  order_id: orderId,
  parent_id: null,
  kind: 'sale',
  status: 'success',
  gateway: 'shopify_payments',
  amount: '55.37',
  currency: 'CAD',
  authorization: 'ch_3PqK4TQ2Z8',
  message: null,
  error_code: null,
  payment_id: '#1042.1',
  source_name: 'web',
  test: false,
  payment_details: { credit_card_company: 'Visa', credit_card_number: '•••• •••• •••• 4242' },
  created_at: updatedAt,
  processed_at: updatedAt,
  admin_graphql_api_id: gid('OrderTransaction', 6_345_678_901_234),
}
const refund = {
  id: 912_345_678_901,
  order_id: orderId,
  admin_graphql_api_id: gid('Refund', 912_345_678_901),
  note: 'Item out of stock',
  restock: true,
  user_id: 84_123_456_789,
  created_at: updatedAt,
  processed_at: updatedAt,
  order_adjustments: [],
  refund_line_items: [
    { id: 512_345_678_901, line_item_id: lineItem.id, quantity: 1, restock_type: 'cancel', subtotal: 24.5 },
  ],
  transactions: [
    {
      ...transaction,
      id: 6_345_678_901_299,
      kind: 'refund',
      amount: '27.69',
      parent_id: transaction.id,
      payment_id: '#1042.2',
      admin_graphql_api_id: gid('OrderTransaction', 6_345_678_901_299),
    },
  ],
}
const tenderTransaction = {
  id: 7_345_678_901_234,
  order_id: orderId,
  amount: '55.37',
  currency: 'CAD',
  payment_method: 'credit_card',
  remote_reference: 'ch_3PqK4TQ2Z8',
  user_id: null,
  test: false,
  processed_at: updatedAt,
  payment_details: { credit_card_company: 'Visa', credit_card_number: '•••• •••• •••• 4242' },
}
const paymentSchedule = {
  id: 3_123_456_789,
  payment_terms_id: 9_123_456_789,
  amount: '55.37',
  currency: 'CAD',
  issued_at: createdAt,
  due_at: '2026-12-10T11:10:00-05:00',
  completed_at: null,
  created_at: createdAt,
  updated_at: updatedAt,
  admin_graphql_api_id: gid('PaymentSchedule', 3_123_456_789),
}
const paymentTerms = {
  id: 9_123_456_789,
  admin_graphql_api_id: gid('PaymentTerms', 9_123_456_789),
  payment_terms_name: 'Net 30',
  payment_terms_type: 'net',
  due_in_days: 30,
  payment_schedules: [paymentSchedule],
  created_at: createdAt,
  updated_at: updatedAt,
}
const dispute = {
  id: 285_332_461_850,
  order_id: orderId,
  type: 'chargeback',
  status: 'needs_response',
  amount: '55.37',
  currency: 'CAD',
  reason: 'fraudulent',
  network_reason_code: '4837',
  initiated_at: '2026-11-09T17:21:50-05:00',
  evidence_due_by: '2026-11-23T17:21:50-05:00',
  evidence_sent_on: null,
  finalized_on: null,
}
const returnReport = {
  id: 5_123_456_789,
  admin_graphql_api_id: gid('Return', 5_123_456_789),
  order_id: orderId,
  status: 'open',
}
const returned = {
  id: 5_123_456_789,
  admin_graphql_api_id: gid('Return', 5_123_456_789),
  name: '#1042-R1',
  order: { id: orderId, admin_graphql_api_id: gid('Order', orderId) },
  total_return_line_items: 1,
  return_line_items: [
    {
      id: 6_123_456_789,
      quantity: 1,
      return_reason: 'size_too_small',
      customer_note: 'Too small',
      fulfillment_line_item: { id: 11_123_456_789, line_item: { id: lineItem.id } },
    },
  ],
}
const fulfillment = {
  id: 4_567_890_123_456,
  order_id: orderId,
  name: '#1042.1',
  status: 'success',
  shipment_status: null,
  tracking_company: 'Canada Post',
  tracking_number: '7023210039414604',
  location_id: 61_234_567_890,
  tracking_url: 'https://track.example.com/7023210039414604',
  destination: address,
  line_items: [lineItem],
  created_at: updatedAt,
  updated_at: updatedAt,
  admin_graphql_api_id: gid('Fulfillment', 4_567_890_123_456),
}
const fulfillmentEvent = {
  id: 12_345_678_901,
  fulfillment_id: 4_567_890_123_456,
  order_id: orderId,
  status: 'in_transit',
  message: 'The parcel left the sorting centre',
  happened_at: updatedAt,
  city: 'Ottawa',
  country: 'CA',
  estimated_delivery_at: '2026-11-13T17:00:00-05:00',
  created_at: updatedAt,
  updated_at: updatedAt,
  admin_graphql_api_id: gid('FulfillmentEvent', 12_345_678_901),
}
const fulfillmentOrder = {
  id: gid('FulfillmentOrder', 6_789_012_345_678),
  status: 'open',
  request_status: 'unsubmitted',
}
const hold = {
  id: gid('FulfillmentHold', 812_345_678),
  reason: 'inventory_out_of_stock',
  reason_notes: 'Back on Monday',
}
const merchantRequest = {
  id: gid('FulfillmentOrderMerchantRequest', 412_345_678),
  message: 'Please ship today',
}
const withOrder = (members: JsonObject, more: JsonObject = {}): JsonObject => ({
  fulfillment_order: { ...fulfillmentOrder, ...members },
  ...more,
})
const message = 'Accepted for today’s dispatch'
const another = { ...fulfillmentOrder, id: gid('FulfillmentOrder', 6_789_012_345_679) }

const fulfillmentOrders: Readonly<Record<string, JsonObject>> = {
  order_routing_complete: withOrder({}),
  fulfillment_request_submitted: {
    original_fulfillment_order: { ...fulfillmentOrder, request_status: 'submitted' },
    submitted_fulfillment_order: { ...fulfillmentOrder, request_status: 'submitted' },
    fulfillment_order_merchant_request: merchantRequest,
  },
  fulfillment_request_accepted: withOrder({ status: 'in_progress', request_status: 'accepted' }, { message }),
  fulfillment_request_rejected: withOrder({ request_status: 'rejected' }, { message: 'Out of stock' }),
  cancellation_request_submitted: withOrder(
    { status: 'in_progress', request_status: 'cancellation_requested' },
    { fulfillment_order_merchant_request: { ...merchantRequest, message: 'The customer cancelled' } },
  ),
  cancellation_request_accepted: withOrder({ status: 'cancelled' }, { message: 'Not shipped yet' }),
  cancellation_request_rejected: withOrder(
    { status: 'in_progress', request_status: 'cancellation_rejected' },
    { message: 'Already shipped' },
  ),
  cancelled: withOrder({ status: 'cancelled' }, { replacement_fulfillment_order: another }),
  placed_on_hold: withOrder({ status: 'on_hold' }, { created_fulfillment_hold: hold }),
  hold_released: withOrder({}),
  progress_reported: withOrder(
    { status: 'in_progress' },
    { initial_status: 'open', progress_report: { reason_notes: 'Being packed' } },
  ),
  manually_reported_progress_stopped: withOrder(
    {},
    { progress_stopped_by_user: { id: gid('StaffMember', 84_123) } },
  ),
  fulfillment_service_failed_to_complete: withOrder(
    { status: 'incomplete', request_status: 'closed' },
    { message: 'Damaged in the warehouse' },
  ),
  line_items_prepared_for_local_delivery: withOrder({
    delivery_method: { method_type: 'local' },
    preparable: true,
  }),
  line_items_prepared_for_pickup: withOrder({
    delivery_method: { method_type: 'pick_up' },
    preparable: true,
  }),
  merged: {
    fulfillment_order_merges: { fulfillment_order: fulfillmentOrder },
    merge_intents: [{ fulfillment_order_id: another.id }],
  },
  moved: {
    original_fulfillment_order: {
      ...fulfillmentOrder,
      status: 'closed',
      assigned_location_id: gid('Location', 61_234_567_890),
    },
    moved_fulfillment_order: { ...another, assigned_location_id: gid('Location', 61_234_567_891) },
    source_location: { id: gid('Location', 61_234_567_890) },
    destination_location_id: gid('Location', 61_234_567_891),
  },
  split: withOrder(
    {},
    { remaining_fulfillment_order: another, split_line_items: [{ id: lineItem.id, quantity: 1 }] },
  ),
  rescheduled: withOrder({ status: 'scheduled', fulfill_at: '2026-11-20T14:00:00Z' }),
  scheduled_fulfillment_order_ready: withOrder({}),
}

/** Payloads by topic. */
export const orderSamples: Readonly<Record<string, JsonObject>> = {
  ...Object.fromEntries(
    Object.entries(fulfillmentOrders).map(([verb, sample]) => [`fulfillment_orders/${verb}`, sample]),
  ),
  'orders/edited': {
    order_edit: {
      id: 78_912_328_793,
      order_id: orderId,
      app_id: null,
      user_id: 84_123_456_789,
      notify_customer: false,
      line_items: { additions: [], removals: [{ id: lineItem.id, delta: -1 }] },
      staff_note: 'Customer called',
      created_at: updatedAt,
      committed_at: updatedAt,
    },
  },
  'orders/paid': { ...order, financial_status: 'paid' },
  'orders/fulfilled': { ...order, financial_status: 'paid', fulfillment_status: 'fulfilled' },
  'orders/partially_fulfilled': { ...order, financial_status: 'paid', fulfillment_status: 'partial' },
  'orders/cancelled': {
    ...order,
    financial_status: 'voided',
    cancelled_at: updatedAt,
    cancel_reason: 'customer',
  },
  'orders/delete': { id: orderId },
  'orders/risk_assessment_changed': {
    order_id: String(orderId),
    admin_graphql_api_order_id: gid('Order', orderId),
    risk_level: 'HIGH',
    provider_id: null,
    provider_title: null,
    created_at: createdAt,
  },
  'orders/shopify_protect_eligibility_changed': {
    order_id: orderId,
    status: 'pending',
    eligibility: { status: 'eligible' },
  },
  'draft_orders/delete': { id: draftOrder.id },
  'checkouts/delete': {
    id: checkout.id,
    cart_token: 'hWN2Hiw3',
    subtotal_price: '49.00',
    total_price: '55.37',
    presentment_currency: 'CAD',
  },
  'payment_terms/delete': { id: paymentTerms.id },
  'payment_schedules/due': paymentSchedule,
  'returns/request': { ...returned, status: 'requested' },
  'returns/approve': { ...returned, status: 'open' },
  'returns/decline': {
    ...returnReport,
    status: 'declined',
    order: returned.order,
    decline: { reason: 'return_period_ended', note: 'Bought 90 days ago' },
  },
  'returns/update': {
    admin_graphql_api_id: gid('Return', 5_123_456_789),
    restocking_fees: { updates: [] },
    return_line_items: { removals: [], additions: [{ id: 6_123_456_789, quantity: 1 }] },
  },
  'returns/cancel': { ...returnReport, status: 'canceled' },
  'returns/close': { ...returnReport, status: 'closed' },
  'reverse_deliveries/attach_deliverable': {
    id: 2_123_456_789,
    admin_graphql_api_id: gid('ReverseDelivery', 2_123_456_789),
    return: returnReport,
    shipping_deliverable: { tracking: { carrier_name: 'Canada Post', number: '7023210039414605' } },
  },
  'reverse_fulfillment_orders/dispose': {
    id: 3_123_456_780,
    admin_graphql_api_id: gid('ReverseFulfillmentOrder', 3_123_456_780),
    total_dispositions: 1,
    dispositions: [{ type: 'restocked', quantity: 1 }],
  },
  'fulfillment_holds/added': withOrder({ status: 'on_hold' }, { fulfillment_hold: hold }),
  'fulfillment_holds/released': withOrder({}, { fulfillment_hold: hold }),
}

/** Payloads by resource, the first half of a topic. */
export const orderResources: Readonly<Record<string, JsonObject>> = {
  orders: order,
  draft_orders: draftOrder,
  checkouts: checkout,
  carts: cart,
  order_transactions: transaction,
  refunds: refund,
  tender_transactions: tenderTransaction,
  payment_terms: paymentTerms,
  disputes: dispute,
  returns: returnReport,
  fulfillments: fulfillment,
  fulfillment_events: fulfillmentEvent,
}
