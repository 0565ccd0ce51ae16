//! The golden code compiles, without a warning, and calls go through it from end to end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use greenwave::{
    Channel, ChannelConfig, Code, Context, Incoming, MethodId, Outgoing, Reason, Router, Server, ServerConfig,
    ServerHandle, Status,
};
use prost::Message;

/// The modules as packages nest.
pub mod shop {
    /// Of `protos/stock.proto`.
    pub mod stock {
        include!("golden/shop.stock.rs");
    }
    /// Of `protos/shop.proto`.
    pub mod v1 {
        include!("golden/shop.v1.rs");
    }
}

/// Of `protos/kept.proto`, with `bytes` in place.
pub mod kept {
    include!("golden_bytes/kept.rs");
}

use kept::{Keeper, KeeperClient, KeeperServer, Piece};
use shop::stock::Level;
use shop::v1::{
    Belt, BeltClient, BeltServer, FILE_DESCRIPTOR_SET, FindRequest, Item, Shop, ShopClient, ShopServer, Till,
    TillServer, shop_methods,
};

/// Keeps the last piece that it was given, as it was given.
#[derive(Default)]
struct Kept(Mutex<Piece>);

impl Keeper for Kept {
    fn keep(&self, _: &Context, piece: Piece) -> Result<Piece, Status> {
        Ok(std::mem::replace(&mut self.0.lock().unwrap(), piece))
    }
}

struct Corner;

impl Shop for Corner {
    fn find(&self, _: &Context, request: FindRequest) -> Result<Item, Status> {
        match request.name.as_str() {
            "tea" => Ok(Item { name: request.name, price: 250, ..Item::default() }),
            other => Err(Status::new(Code::NotFound, format!("no {other} here"))),
        }
    }

    fn r#type(&self, _: &Context, request: Level) -> Result<FindRequest, Status> {
        Ok(FindRequest { name: format!("{} left", request.left) })
    }

    fn clone(&self, _: &Context, request: Item) -> Result<Item, Status> {
        Ok(Item { price: request.price * 2, ..request })
    }
}

impl Belt for Corner {
    fn unpack(&self, ctx: &Context, request: Item, mut replies: Outgoing<FindRequest>) -> Result<(), Status> {
        for number in 0..request.price {
            replies.send(ctx, named(&format!("{} {number}", request.name)))?;
        }
        if request.name.is_empty() { Err(Status::new(Code::InvalidArgument, "it has no name")) } else { Ok(()) }
    }

    fn total(&self, ctx: &Context, mut requests: Incoming<Item>) -> Result<Item, Status> {
        let mut total = Item::default();
        while let Some(item) = requests.next(ctx)? {
            total.price += item.price;
        }
        Ok(total)
    }

    fn price(
        &self,
        ctx: &Context,
        mut requests: Incoming<FindRequest>,
        mut replies: Outgoing<Item>,
    ) -> Result<(), Status> {
        while let Some(request) = requests.next(ctx)? {
            replies.send(ctx, self.find(ctx, request)?)?;
        }
        Ok(())
    }
}

impl Till for Corner {}

fn serve(router: impl Into<Router>) -> (ServerHandle, Channel) {
    let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
    let server = Server::start(ServerConfig::default().listen(listen), router).unwrap();
    let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
    (server, channel)
}

fn context() -> Context {
    Context::with_deadline(Duration::from_secs(60))
}

fn named(name: &str) -> FindRequest {
    FindRequest { name: name.to_owned() }
}

#[test]
fn a_call_brings_the_reply_and_what_it_cost() {
    let (_server, channel) = serve(ShopServer::new(Arc::new(Corner)));
    let shop = ShopClient::new(channel);
    let item = shop.find(&context(), &named("tea")).unwrap();
    assert_eq!(item.price, 250);
    assert!(item.receipt.total <= item.total);
    let doubled = shop.clone(&context(), &item.into_inner()).unwrap();
    assert_eq!(doubled.price, 500);
}

#[test]
fn messages_stream_one_way_the_other_and_both() {
    let (_server, channel) = serve(BeltServer::new(Arc::new(Corner)));
    let (belt, context) = (BeltClient::new(channel), context());
    let three = Item { name: "box".to_owned(), price: 3, ..Item::default() };
    let mut names = belt.unpack(&context, &three).unwrap();
    for number in 0..3 {
        assert_eq!(names.next(&context), Ok(Some(named(&format!("box {number}")))));
    }
    assert_eq!(names.next(&context), Ok(None));

    let (mut items, total) = belt.total(&context).unwrap();
    (1..=1000).for_each(|price| items.send(&context, Item { price, ..Item::default() }).unwrap());
    items.end();
    assert_eq!(total.only(&context).unwrap().price, 500_500);

    let (mut requests, mut prices) = belt.price(&context).unwrap();
    for _ in 0..100 {
        requests.send(&context, named("tea")).unwrap();
        assert_eq!(prices.next(&context).unwrap().map(|item| item.price), Some(250));
    }
    requests.send(&context, named("gold")).unwrap();
    let failed = prices.next(&context).unwrap_err();
    assert_eq!((failed.code, failed.message.as_str()), (Code::NotFound, "no gold here"));
}

#[test]
fn a_stream_that_fails_gives_what_came_before_that() {
    let (_server, channel) = serve(BeltServer::new(Arc::new(Corner)));
    let (belt, context) = (BeltClient::new(channel), context());
    let mut names = belt.unpack(&context, &Item { price: 2, ..Item::default() }).unwrap();
    assert_eq!(names.next(&context), Ok(Some(named(" 0"))));
    assert_eq!(names.next(&context), Ok(Some(named(" 1"))));
    assert_eq!(names.next(&context).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn bytes_in_place_stay_what_they_were_while_other_requests_come() {
    let (_server, channel) = serve(KeeperServer::new(Arc::new(Kept::default())));
    let keeper = KeeperClient::new(channel);
    let piece = |number: u8| Piece { content: vec![number; 1 << (number % 18)].into() };
    for number in 0..40 {
        let before = keeper.keep(&context(), &piece(number)).unwrap();
        assert_eq!(before.content, number.checked_sub(1).map(piece).unwrap_or_default().content);
    }
}

#[test]
fn a_handlers_failure_arrives_as_it_was_made() {
    let (_server, channel) = serve(ShopServer::new(Arc::new(Corner)));
    let shop = ShopClient::new(channel);
    let by_future = wait(shop.find_async(&context(), &named("gold"))).unwrap_err();
    for failure in [shop.find(&context(), &named("gold")).unwrap_err(), by_future] {
        assert_eq!((failure.code, failure.message.as_str()), (Code::NotFound, "no gold here"));
        let receipt = failure.receipt.as_ref().expect("the server says what it spent");
        assert!(!receipt.service.is_zero() && receipt.service <= receipt.total && receipt.total <= failure.total);
        assert_eq!(Status::from(failure).code, Code::NotFound);
    }
}

#[test]
fn a_failure_on_this_side_has_no_receipt_and_its_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
    let shop = ShopClient::new(Channel::new(address, ChannelConfig::default()).unwrap());
    let (budget, before) = (Duration::from_millis(20), Instant::now());
    let context = Context::with_deadline(budget);
    let failure = shop.find(&context, &named("tea")).unwrap_err();
    let took = before.elapsed();
    assert_eq!(failure.code, Code::DeadlineExceeded);
    // The budget runs from where the context is made, the call's time from where it begins, which may be later.
    assert!(failure.receipt.is_none() && !failure.total.is_zero());
    assert!(took >= budget && failure.total <= took, "{:?} of {took:?}", failure.total);
}

#[test]
fn a_future_brings_the_reply_and_needs_neither_client_nor_context() {
    let (_server, channel) = serve(ShopServer::new(Arc::new(Corner)));
    let reply = {
        let shop = ShopClient::new(channel);
        shop.type_async(&context(), &Level { left: 3 })
    };
    assert_eq!(wait(reply).unwrap().name, "3 left");
}

#[test]
fn bytes_that_are_no_request_are_refused_as_such() {
    let (_server, channel) = serve(ShopServer::new(Arc::new(Corner)));
    let status = channel.call(&context(), shop_methods::FIND_ID, b"\xff").unwrap_err();
    assert_eq!((status.code, status.reason), (Code::InvalidArgument, Reason::Decode));
}

#[test]
fn bytes_that_are_no_reply_are_the_servers_fault() {
    let (_server, channel) = serve(Router::new().method(shop_methods::FIND, |_, _, reply| {
        reply.push(0xff);
        Ok(())
    }));
    let status = ShopClient::new(channel).find(&context(), &named("tea")).unwrap_err();
    assert_eq!((status.code, status.reason, status.receipt.is_some()), (Code::Internal, Reason::Decode, true));
}

#[test]
fn routers_of_services_merge() {
    let service: Arc<dyn Shop> = Arc::new(Corner);
    let router = ShopServer::new(service).into_router().merge(TillServer::new(Arc::new(Corner)).into_router());
    assert_eq!(router.names().collect::<Vec<_>>(), [shop_methods::FIND, shop_methods::TYPE, shop_methods::CLONE]);
    let (_server, channel) = serve(router);
    assert_eq!(ShopClient::new(channel).find(&context(), &named("tea")).unwrap().price, 250);
}

#[test]
fn the_descriptors_describe_the_service_and_what_it_imports() {
    use protox::prost_reflect::DescriptorPool;
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let service = pool.get_service_by_name("shop.v1.Shop").unwrap();
    let methods: Vec<_> = service.methods().map(|method| method.full_name().to_owned()).collect();
    assert_eq!(methods, ["shop.v1.Shop.Find", "shop.v1.Shop.Type", "shop.v1.Shop.Clone"]);
    assert!(pool.get_message_by_name("shop.stock.Level").is_some());
    assert_eq!(shop_methods::FIND_ID, MethodId::of("shop.v1.Shop/Find"));
    assert!(Level::decode(&b"\x08\x03"[..]).is_ok_and(|level| level.left == 3));
}

/// Blocks on a future.
fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
