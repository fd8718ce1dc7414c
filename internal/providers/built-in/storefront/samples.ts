import type { JsonObject } from '../../normalize.ts'
import { address, gid, orderResources, orderSamples } from './order-samples.ts'

// Payloads of all topics but those of orders, in the vendor's shape, with their principal members.

const createdAt = '2026-11-10T11:10:00-05:00'
const updatedAt = '2026-11-10T11:16:31-05:00'
const times = { created_at: createdAt, updated_at: updatedAt }
const happened_at = '2026-11-10T16:16:31Z'
const shop = { shop_id: 54_838_345_678, shop_domain: 'acme.myshopify.com' }

const variant = {
  id: 44_123_456_789_012,
  product_id: 8_123_456_789_012,
  title: 'M',
  sku: 'SHIRT-M',
  price: '24.50',
  inventory_quantity: 12,
  inventory_policy: 'deny',
  position: 1,
  taxable: true,
  ...times,
}
const product = {
  id: 8_123_456_789_012,
  admin_graphql_api_id: gid('Product', 8_123_456_789_012),
  title: 'Shirt',
  handle: 'shirt',
  vendor: 'Acme',
  product_type: 'Shirts',
  status: 'active',
  tags: 'cotton',
  published_at: createdAt,
  ...times,
  variants: [variant],
  options: [{ name: 'Size', values: ['M', 'L'] }],
}
/** Body of the vendor's newer Events. */
const productEvent = (action: string): JsonObject => ({
  topic: 'Product',
  action,
  handle: 'product-sync',
  fields_changed: ['product.title'],
  query_variables: { productId: product.admin_graphql_api_id },
  data: { product: { id: product.admin_graphql_api_id, title: 'Shirt' } },
})
const listing = {
  product_id: product.id,
  title: 'Shirt',
  handle: 'shirt',
  vendor: 'Acme',
  available: true,
  published_at: createdAt,
  updated_at: updatedAt,
  variants: [variant],
}
const collection = {
  id: 412_345_678_901,
  admin_graphql_api_id: gid('Collection', 412_345_678_901),
  title: 'Summer',
  handle: 'summer',
  sort_order: 'best-selling',
  published_scope: 'web',
  rules: null,
  published_at: createdAt,
  updated_at: updatedAt,
}
const publication = {
  id: 71_234_567,
  publication_id: 91_234_567,
  published: true,
  published_at: createdAt,
  ...times,
}
const discount = {
  admin_graphql_api_id: gid('DiscountCodeNode', 1_234_567_890),
  title: 'Summer sale',
  status: 'ACTIVE',
  ...times,
}
const redeemCode = {
  admin_graphql_api_id: gid('DiscountCodeNode', 1_234_567_890),
  updated_at: updatedAt,
  redeem_code: { id: gid('DiscountRedeemCode', 9_876_543_210), code: 'SUMMER10' },
}

const customer = {
  id: 7_012_345_678_901,
  admin_graphql_api_id: gid('Customer', 7_012_345_678_901),
  state: 'enabled',
  email: 'buyer@example.com',
  first_name: 'Test',
  last_name: 'Buyer',
  phone: null,
  verified_email: true,
  tax_exempt: false,
  currency: 'CAD',
  note: null,
  ...times,
  addresses: [address],
  default_address: address,
}
const customerRequest = { ...shop, customer: { id: customer.id, email: 'buyer@example.com', phone: null } }
const consent = {
  state: 'subscribed',
  opt_in_level: 'confirmed_opt_in',
  consent_updated_at: updatedAt,
}
const segment = {
  id: 512_345_678_901,
  name: 'Repeat buyers',
  query: 'number_of_orders > 2',
  creationDate: createdAt,
  lastEditDate: updatedAt,
}
const segmentMembership = {
  customer_id: customer.admin_graphql_api_id,
  segment_id: gid('Segment', segment.id),
  shop_id: gid('Shop', shop.shop_id),
}
const customerTags = {
  customerId: customer.admin_graphql_api_id,
  tags: ['wholesale'],
  occurredAt: happened_at,
}
const group = {
  id: 239_443_597,
  name: 'Subscribers',
  query: 'email_subscription_status:SUBSCRIBED',
  ...times,
}
const paymentMethod = {
  admin_graphql_api_id: gid('CustomerPaymentMethod', 6_123_456_789),
  token: '6d4a1f7c2b',
  customer_id: customer.id,
  admin_graphql_api_customer_id: customer.admin_graphql_api_id,
  instrument_type: 'CustomerCreditCard',
  resource_type: 'CustomerPaymentMethod',
  payment_instrument: { brand: 'Visa', last_digits: '4242', month: 11, year: 2029, name: 'Test Buyer' },
}
const company = {
  admin_graphql_api_id: gid('Company', 512_345_678),
  name: 'Acme Retail',
  external_id: 'crm-311',
  note: '',
  main_contact_admin_graphql_api_id: gid('CompanyContact', 612_345_678),
  customer_since: createdAt,
  ...times,
}
const companyContact = {
  admin_graphql_api_id: gid('CompanyContact', 612_345_678),
  title: 'Buyer',
  locale: 'en',
  customer_admin_graphql_api_id: customer.admin_graphql_api_id,
  company,
  ...times,
}
const companyLocation = {
  admin_graphql_api_id: gid('CompanyLocation', 712_345_678),
  name: 'Ottawa',
  external_id: 'crm-311-1',
  phone: null,
  locale: 'en',
  shipping_address: address,
  billing_address: address,
  company,
  ...times,
}
const companyRole = {
  company_contact: { admin_graphql_api_id: companyContact.admin_graphql_api_id },
  company_contact_role: { admin_graphql_api_id: gid('CompanyContactRole', 812_345), name: 'Ordering only' },
  company_location: { admin_graphql_api_id: companyLocation.admin_graphql_api_id, name: 'Ottawa' },
}

const contract = {
  id: 9_123_456_789,
  admin_graphql_api_id: gid('SubscriptionContract', 9_123_456_789),
  status: 'active',
  customer_id: customer.id,
  admin_graphql_api_customer_id: customer.admin_graphql_api_id,
  origin_order_id: 5_678_901_234_567,
  currency_code: 'CAD',
  revision_id: '9123456790',
  billing_policy: { interval: 'month', interval_count: 1, min_cycles: 1, max_cycles: null },
  delivery_policy: { interval: 'month', interval_count: 1 },
}
const attempt = {
  id: 3_123_456_789,
  admin_graphql_api_id: gid('SubscriptionBillingAttempt', 3_123_456_789),
  idempotency_key: 'contract-9123456789-2026-11',
  subscription_contract_id: contract.id,
  ready: true,
  order_id: null,
  error_code: null,
  error_message: null,
}
const cycle = {
  subscription_contract_id: contract.id,
  cycle_index: 3,
  cycle_start_at: '2026-11-10T00:00:00Z',
  cycle_end_at: '2026-12-10T00:00:00Z',
  billing_attempt_expected_date: '2026-11-10T00:00:00Z',
  skipped: false,
  edited: false,
  contract_edit: null,
}
const sellingPlanGroup = {
  id: 1_039_498_765,
  admin_graphql_api_id: gid('SellingPlanGroup', 1_039_498_765),
  name: 'Subscribe and save',
  merchant_code: 'subscribe',
  options: ['Delivery every'],
  summary: '1 delivery frequency',
  products: [],
  selling_plans: [{ name: 'Monthly', options: ['Month'], billing_policy: contract.billing_policy }],
}

const inventoryItem = {
  id: 46_123_456_789_012,
  admin_graphql_api_id: gid('InventoryItem', 46_123_456_789_012),
  sku: 'SHIRT-M',
  tracked: true,
  requires_shipping: true,
  cost: '9.80',
  country_code_of_origin: 'PT',
  ...times,
}
const location = {
  id: 61_234_567_890,
  admin_graphql_api_id: gid('Location', 61_234_567_890),
  name: 'Ottawa',
  active: true,
  address1: '150 Elgin St',
  city: 'Ottawa',
  province_code: 'ON',
  zip: 'K2P 1L4',
  country_code: 'CA',
  ...times,
}
const level = {
  inventory_item_id: inventoryItem.id,
  location_id: location.id,
  available: 12,
  updated_at: updatedAt,
  admin_graphql_api_id: `${gid('InventoryLevel', 91_234_567_890)}?inventory_item_id=${inventoryItem.id}`,
}
const inventoryLine = {
  id: gid('InventoryTransferLineItem', 312_345),
  inventory_item_id: inventoryItem.admin_graphql_api_id,
  quantity: 5,
}
const transfer = {
  id: gid('InventoryTransfer', 212_345_678),
  status: 'READY_TO_SHIP',
  happened_at,
  origin: { id: location.admin_graphql_api_id },
  destination: { id: gid('Location', 61_234_567_891) },
}
const shipment = { id: gid('InventoryShipment', 412_345_678), status: 'DRAFT', happened_at }
const tracking = {
  company: 'Canada Post',
  tracking_number: '7023210039414606',
  arrives_at: '2026-11-14T00:00:00Z',
}

const shopDetails = {
  id: shop.shop_id,
  name: 'Acme',
  email: 'shop@example.com',
  myshopify_domain: 'acme.myshopify.com',
  domain: 'acme.example.com',
  currency: 'CAD',
  country_code: 'CA',
  city: 'Ottawa',
  zip: 'K2P 1L4',
  iana_timezone: 'America/Toronto',
  primary_locale: 'en',
  plan_name: 'basic',
  ...times,
}
const shopGid = gid('Shop', shop.shop_id)
const appSubscription = {
  admin_graphql_api_id: gid('AppSubscription', 1_029_266_951),
  name: 'Pro',
  status: 'ACTIVE',
  admin_graphql_api_shop_id: shopGid,
  currency: 'USD',
  capped_amount: '100.00',
  ...times,
}
const bulkOperation = {
  admin_graphql_api_id: gid('BulkOperation', 147_595_010),
  type: 'query',
  status: 'completed',
  created_at: createdAt,
  completed_at: updatedAt,
  error_code: null,
}
const theme = {
  id: 512_345_678,
  admin_graphql_api_id: gid('OnlineStoreTheme', 512_345_678),
  name: 'Dawn',
  role: 'unpublished',
  theme_store_id: 887,
  previewable: true,
  processing: false,
  ...times,
}
const metafieldDefinition = {
  id: gid('MetafieldDefinition', 112_345),
  name: 'Care guide',
  namespace: 'custom',
  key: 'care_guide',
  type_name: 'single_line_text_field',
  owner_type: 'product',
  ...times,
}
const metaobject = {
  id: gid('Metaobject', 212_345),
  type: 'lookbook',
  handle: 'summer',
  display_name: 'Summer',
  definition_id: gid('MetaobjectDefinition', 312),
  fields: { title: 'Summer' },
  ...times,
}
const profile = {
  id: 103_456_789,
  admin_graphql_api_id: gid('DeliveryProfile', 103_456_789),
  name: 'Fragile items',
  default: false,
  version: 3,
}

/** Payloads by topic. */
const samples: Readonly<Record<string, JsonObject>> = {
  ...orderSamples,
  'products/delete': { id: product.id },
  'Product/create': productEvent('create'),
  'Product/update': productEvent('update'),
  'Product/delete': productEvent('delete'),
  'variants/out_of_stock': { ...variant, inventory_quantity: 0, old_inventory_quantity: 1 },
  'product_listings/remove': { product_listing: { product_id: product.id } },
  'scheduled_product_listings/remove': { scheduled_product_listing: { product_id: product.id } },
  'product_publications/delete': { id: publication.id },
  'collections/delete': {
    id: collection.id,
    admin_graphql_api_id: collection.admin_graphql_api_id,
    published_scope: 'web',
  },
  'collection_listings/remove': { collection_listing: { collection_id: collection.id } },
  'collection_publications/delete': { id: publication.id },
  'discounts/delete': { admin_graphql_api_id: discount.admin_graphql_api_id, deleted_at: updatedAt },
  'discounts/redeemcode_added': redeemCode,
  'discounts/redeemcode_removed': redeemCode,
  'customers/disable': { ...customer, state: 'disabled' },
  'customers/delete': {
    id: customer.id,
    admin_graphql_api_id: customer.admin_graphql_api_id,
    tax_exemptions: [],
  },
  'customers/merge': {
    admin_graphql_api_customer_kept_id: customer.admin_graphql_api_id,
    admin_graphql_api_customer_deleted_id: gid('Customer', 7_012_345_678_902),
    admin_graphql_api_job_id: null,
    status: 'completed',
    errors: [],
  },
  'customers/purchasing_summary': {
    customerId: customer.admin_graphql_api_id,
    numberOfOrders: 3,
    lastOrderId: gid('Order', 5_678_901_234_567),
    amountSpent: { amount: '166.11', currencyCode: 'CAD' },
    occurredAt: happened_at,
  },
  'customers/data_request': {
    ...customerRequest,
    orders_requested: [5_678_901_234_567],
    data_request: { id: 9_999 },
  },
  'customers/redact': { ...customerRequest, orders_to_redact: [5_678_901_234_567] },
  'customer.tags_added': customerTags,
  'customer.tags_removed': customerTags,
  'customer.joined_segment': segmentMembership,
  'customer.left_segment': segmentMembership,
  'customer_groups/delete': { id: group.id },
  'segments/delete': { id: segment.id },
  'selling_plan_groups/delete': {
    id: sellingPlanGroup.id,
    admin_graphql_api_id: sellingPlanGroup.admin_graphql_api_id,
  },
  'subscription_contracts/pause': { ...contract, status: 'paused' },
  'subscription_contracts/cancel': { ...contract, status: 'cancelled' },
  'subscription_contracts/expire': { ...contract, status: 'expired' },
  'subscription_contracts/fail': { ...contract, status: 'failed' },
  'subscription_billing_attempts/success': {
    ...attempt,
    order_id: 5_678_901_234_567,
    admin_graphql_api_order_id: gid('Order', 5_678_901_234_567),
  },
  'subscription_billing_attempts/failure': {
    ...attempt,
    error_code: 'insufficient_funds',
    error_message: 'The card has insufficient funds',
  },
  'subscription_billing_cycles/skip': { ...cycle, skipped: true },
  'subscription_billing_cycle_edits/create': { ...cycle, edited: true },
  'subscription_billing_cycle_edits/update': { ...cycle, edited: true },
  'inventory_items/delete': {
    id: inventoryItem.id,
    admin_graphql_api_id: inventoryItem.admin_graphql_api_id,
  },
  'inventory_levels/disconnect': { inventory_item_id: inventoryItem.id, location_id: location.id },
  'inventory_transfers/ready_to_ship': { ...transfer, line_items: [inventoryLine] },
  'inventory_transfers/complete': { ...transfer, status: 'TRANSFERRED' },
  'inventory_transfers/cancel': { ...transfer, status: 'CANCELED' },
  'inventory_transfers/add_items': { ...transfer, items_added: [inventoryLine] },
  'inventory_transfers/remove_items': { ...transfer, items_removed: [inventoryLine] },
  'inventory_transfers/update_item_quantities': { ...transfer, items_updated: [inventoryLine] },
  'inventory_shipments/create': { ...shipment, line_items: [inventoryLine], tracking },
  'inventory_shipments/delete': { id: shipment.id, happened_at },
  'inventory_shipments/mark_in_transit': { ...shipment, status: 'IN_TRANSIT' },
  'inventory_shipments/receive_items': { ...shipment, status: 'RECEIVED', items_received: [inventoryLine] },
  'inventory_shipments/add_items': { id: shipment.id, happened_at, items_added: [inventoryLine] },
  'inventory_shipments/remove_items': { id: shipment.id, happened_at, items_removed: [inventoryLine] },
  'inventory_shipments/update_item_quantities': {
    id: shipment.id,
    happened_at,
    items_updated: [inventoryLine],
  },
  'inventory_shipments/update_tracking': {
    shipment_id: shipment.id,
    happened_at,
    updated_tracking: tracking,
  },
  'locations/deactivate': { ...location, active: false },
  'locations/delete': { id: location.id },
  'app/uninstalled': shopDetails,
  'app/scopes_update': {
    id: 91_234,
    shop_id: shopGid,
    previous: ['read_products'],
    current: ['read_products', 'read_orders'],
    updated_at: updatedAt,
  },
  'app_subscriptions/approaching_capped_amount': {
    app_subscription: { ...appSubscription, balance_used: 91, currency_code: 'USD' },
  },
  'app_purchases_one_time/update': {
    app_purchase_one_time: {
      admin_graphql_api_id: gid('AppPurchaseOneTime', 1_017_262_355),
      name: 'Import',
      status: 'ACTIVE',
      admin_graphql_api_shop_id: shopGid,
      ...times,
    },
  },
  'shop/redact': shop,
  'channels/delete': { id: gid('Channel', 123_456) },
  'markets/delete': { id: 812_345_678 },
  'themes/publish': { ...theme, role: 'main' },
  'themes/delete': { id: theme.id },
  'metafield_definitions/delete': {
    id: metafieldDefinition.id,
    type: 'MetafieldDefinition',
    created_by_app_id: null,
  },
  'metaobjects/delete': { id: metaobject.id, type: 'lookbook', handle: 'summer' },
}

/** Payloads by resource, the first half of a topic, for topics that `samples` does not list. */
const resources: Readonly<Record<string, JsonObject>> = {
  ...orderResources,
  products: product,
  variants: variant,
  product_listings: { product_listing: listing },
  scheduled_product_listings: {
    scheduled_product_listing: { ...listing, publish_at: '2026-12-01T00:00:00Z' },
  },
  product_publications: { ...publication, product_id: product.id },
  collections: collection,
  collection_listings: { collection_listing: { ...collection, collection_id: collection.id } },
  collection_publications: { ...publication, collection_id: collection.id },
  discounts: discount,
  customers: customer,
  customer_groups: group,
  segments: segment,
  customers_email_marketing_consent: {
    customer_id: customer.id,
    email_address: 'buyer@example.com',
    email_marketing_consent: consent,
  },
  customers_marketing_consent: { id: customer.id, phone: '+16135550142', sms_marketing_consent: consent },
  customers_whats_app_marketing_consent: {
    customer_id: customer.id,
    phone: '+16135550142',
    whats_app_marketing_consent: consent,
  },
  customer_payment_methods: paymentMethod,
  companies: company,
  company_contacts: companyContact,
  company_locations: companyLocation,
  company_contact_roles: companyRole,
  subscription_contracts: contract,
  subscription_billing_attempts: attempt,
  subscription_billing_cycles: cycle,
  subscription_billing_cycle_edits: cycle,
  selling_plan_groups: sellingPlanGroup,
  inventory_items: inventoryItem,
  inventory_levels: level,
  inventory_transfers: transfer,
  inventory_shipments: shipment,
  locations: location,
  profiles: profile,
  app_subscriptions: { app_subscription: appSubscription },
  bulk_operations: bulkOperation,
  shop: shopDetails,
  themes: theme,
  metafield_definitions: metafieldDefinition,
  metaobjects: metaobject,
  domains: { id: 690_933_842, host: 'acme.example.com', ssl_enabled: true, localization: null },
  locales: { locale: 'fr', published: true },
  markets: { id: 812_345_678, name: 'Canada', status: 'active', type: 'region' },
}

/** Returns a payload of the vendor's shape for a topic. */
export function storefrontSample(topic: string): JsonObject {
  const [resource = ''] = topic.split('/')
  return samples[topic] ?? resources[resource] ?? {}
}
