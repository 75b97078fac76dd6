#pragma once

#include <c10/util/intrusive_ptr.h>

#include "plugin/worker.h"

namespace c10d {
class Store;
}

namespace ddpscope {

/// Keeps the store that the program hands over until the exchange has made a clone of it; an empty
/// one takes it back.
void give_exchange_store(c10::intrusive_ptr<c10d::Store> store);

/// Opens what ranks share: a connection of our own to the store that was given; else a
/// c10d::TCPStore, whose server rank 0 has on a free port that stands in `rank-0.port` of the
/// report folder, reached at MASTER_ADDR.
StoreAccess store_access(Exchange exchange);

}  // namespace ddpscope
