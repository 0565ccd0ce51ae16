// TCP flows through a fat tree of 128 hosts: fat_tree FLOWS SEED prints a line of JSON.
//
// Four pods of four edge switches with eight hosts each, four aggregation switches and two core switches for each of these; 1 Gbit/s
// to hosts and 10 Gbit/s between switches, 2 us, 256 KiB a port. Flows begin at random, between random hosts, at 0.4 of what the
// hosts' cables carry; sizes are Pareto with an exponent of 1.2 between 1 KB and 10 MB. NewReno without selective or delayed
// acknowledgements. Switches route by arithmetic with the numbers of hosts, which costs less than any of the routers that ns-3
// brings. What is counted as a hop is a packet that came to the end of a cable. Beside the other model each flow shakes hands and says that it ends.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sys/resource.h>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t PODS = 4, EDGES = 4, PER_EDGE = 8, AGGREGATIONS = 4, CORES = 2;
constexpr uint32_t HOSTS = PODS * EDGES * PER_EDGE;
constexpr uint16_t PORT = 9;
constexpr double LOAD = 0.4, LEAST = 1000, MOST = 10e6, ALPHA = 1.2;

// Bytes, flows to come, and packets that came to the end of a cable.
uint64_t g_received = 0, g_sent = 0, g_flows = 0, g_hops = 0;

Ipv4Address
AddressOf(uint32_t host)
{
    return Ipv4Address(0x0a000001 + host);
}

uint32_t
HostOf(Ipv4Address address)
{
    return address.Get() - 0x0a000001;
}

enum class Kind
{
    HOST,
    EDGE,
    AGGREGATION,
    CORE
};

// Ports of a switch, as interfaces: those down first, then those up.
class TreeRouting : public Ipv4RoutingProtocol
{
  public:
    TreeRouting(Kind kind, uint32_t pod, uint32_t number)
        : m_kind(kind),
          m_pod(pod),
          m_number(number)
    {
    }

    // Both directions of a pair of hosts take the same way.
    uint32_t Port(uint32_t from, uint32_t to) const
    {
        uint32_t choice = (std::min(from, to) * HOSTS + std::max(from, to)) * 2654435761u >> 16;
        uint32_t edge = to / PER_EDGE, pod = edge / EDGES;
        switch (m_kind)
        {
        case Kind::EDGE:
            return pod == m_pod && edge % EDGES == m_number ? to % PER_EDGE : PER_EDGE + choice % AGGREGATIONS;
        case Kind::AGGREGATION:
            return pod == m_pod ? edge % EDGES : EDGES + choice / AGGREGATIONS % CORES;
        case Kind::CORE:
            return pod;
        default:
            return 0;
        }
    }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header& header, Ptr<NetDevice>, Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOTERROR;
        Ptr<Ipv4Route> route = Create<Ipv4Route>();
        route->SetDestination(header.GetDestination());
        route->SetSource(AddressOf(m_number));
        route->SetGateway(Ipv4Address::GetZero());
        route->SetOutputDevice(m_ipv4->GetNetDevice(1));
        return route;
    }

    bool RouteInput(Ptr<const Packet> packet,
                    const Ipv4Header& header,
                    Ptr<const NetDevice> device,
                    const UnicastForwardCallback& forward,
                    const MulticastForwardCallback&,
                    const LocalDeliverCallback& deliver,
                    const ErrorCallback&) override
    {
        g_hops++;
        if (m_kind == Kind::HOST)
        {
            deliver(packet, header, m_ipv4->GetInterfaceForDevice(device));
            return true;
        }
        if (m_routes.empty())
        {
            // Interface 0 is the loopback.
            for (uint32_t at = 1; at < m_ipv4->GetNInterfaces(); at++)
            {
                Ptr<Ipv4Route> route = Create<Ipv4Route>();
                route->SetGateway(Ipv4Address::GetZero());
                route->SetOutputDevice(m_ipv4->GetNetDevice(at));
                m_routes.push_back(route);
            }
        }
        forward(m_routes[Port(HostOf(header.GetSource()), HostOf(header.GetDestination()))], packet, header);
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override
    {
    }

    void NotifyInterfaceDown(uint32_t) override
    {
    }

    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void SetIpv4(Ptr<Ipv4> ipv4) override
    {
        m_ipv4 = ipv4;
    }

    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override
    {
    }

  private:
    Kind m_kind;
    uint32_t m_pod, m_number;
    Ptr<Ipv4> m_ipv4;
    std::vector<Ptr<Ipv4Route>> m_routes;
};

double g_gap = 0;
NodeContainer g_hosts;
std::mt19937_64 g_random;

double
Unit()
{
    return std::uniform_real_distribution<double>(0, 1)(g_random);
}

void
CheckEnd()
{
    if (g_flows == 0 && g_received == g_sent)
    {
        Simulator::Stop();
    }
}

class Flow : public SimpleRefCount<Flow>
{
  public:
    void Begin(Ptr<Node> from, Ipv4Address to, uint32_t bytes)
    {
        m_left = bytes;
        Ptr<Socket> socket = Socket::CreateSocket(from, TcpSocketFactory::GetTypeId());
        socket->Bind();
        socket->SetConnectCallback(MakeCallback(&Flow::Connected, Ptr<Flow>(this)), MakeNullCallback<void, Ptr<Socket>>());
        socket->SetSendCallback(MakeCallback(&Flow::HasRoom, Ptr<Flow>(this)));
        socket->Connect(InetSocketAddress(to, PORT));
    }

  private:
    void Connected(Ptr<Socket> socket)
    {
        m_connected = true;
        Send(socket);
    }

    void HasRoom(Ptr<Socket> socket, uint32_t)
    {
        if (m_connected)
        {
            Send(socket);
        }
    }

    void Send(Ptr<Socket> socket)
    {
        while (m_left > 0)
        {
            uint32_t some = std::min(m_left, socket->GetTxAvailable());
            if (some == 0 || socket->Send(Create<Packet>(some)) < 0)
            {
                return;
            }
            m_left -= some;
        }
        if (!m_closed)
        {
            m_closed = true;
            socket->Close();
        }
    }

    uint32_t m_left = 0;
    bool m_connected = false, m_closed = false;
};

void
BeginNext()
{
    g_flows--;
    double low = std::pow(LEAST, -ALPHA), high = std::pow(MOST, -ALPHA);
    auto bytes = static_cast<uint32_t>(std::pow(low - Unit() * (low - high), -1 / ALPHA));
    uint32_t from = g_random() % HOSTS;
    uint32_t to = (from + 1 + g_random() % (HOSTS - 1)) % HOSTS;
    g_sent += bytes;
    Create<Flow>()->Begin(g_hosts.Get(from), AddressOf(to), bytes);
    if (g_flows > 0)
    {
        Simulator::Schedule(Seconds(-std::log(1 - Unit()) * g_gap), &BeginNext);
    }
}

void
Received(Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv())
    {
        if (packet->GetSize() == 0)
        {
            break;
        }
        g_received += packet->GetSize();
    }
    CheckEnd();
}

void
Closed(Ptr<Socket> socket)
{
    socket->Close();
}

void
Accepted(Ptr<Socket> socket, const Address&)
{
    socket->SetRecvCallback(MakeCallback(&Received));
    socket->SetCloseCallbacks(MakeCallback(&Closed), MakeCallback(&Closed));
}

NodeContainer
Nodes(uint32_t count, Kind kind, uint32_t pod)
{
    NodeContainer nodes;
    nodes.Create(count);
    for (uint32_t at = 0; at < count; at++)
    {
        Ptr<Node> node = nodes.Get(at);
        InternetStackHelper stack;
        stack.SetIpv6StackInstall(false);
        stack.Install(node);
        node->GetObject<Ipv4>()->SetRoutingProtocol(CreateObject<TreeRouting>(kind, pod, at));
    }
    return nodes;
}

void
Join(Ptr<Node> one, Ptr<Node> other, PointToPointHelper& cable, uint32_t host)
{
    NetDeviceContainer devices = cable.Install(one, other);
    for (uint32_t at = 0; at < 2; at++)
    {
        Ptr<Ipv4> ipv4 = devices.Get(at)->GetNode()->GetObject<Ipv4>();
        uint32_t interface = ipv4->AddInterface(devices.Get(at));
        // Switches' addresses are used by nobody.
        Ipv4Address address = at == 0 && host < HOSTS ? AddressOf(host) : Ipv4Address(0x0b000001);
        ipv4->AddAddress(interface, Ipv4InterfaceAddress(address, Ipv4Mask(0xff000000)));
        ipv4->SetUp(interface);
    }
}

void
MakeTree()
{
    PointToPointHelper slow, fast;
    slow.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    fast.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    for (PointToPointHelper* cable : {&slow, &fast})
    {
        cable->SetChannelAttribute("Delay", StringValue("2us"));
        cable->SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("262144B"));
    }
    g_hosts = Nodes(HOSTS, Kind::HOST, 0);
    NodeContainer cores = Nodes(AGGREGATIONS * CORES, Kind::CORE, 0);
    std::vector<NodeContainer> edges, aggregations;
    for (uint32_t pod = 0; pod < PODS; pod++)
    {
        edges.push_back(Nodes(EDGES, Kind::EDGE, pod));
        aggregations.push_back(Nodes(AGGREGATIONS, Kind::AGGREGATION, pod));
    }
    for (uint32_t host = 0; host < HOSTS; host++)
    {
        uint32_t edge = host / PER_EDGE;
        Join(g_hosts.Get(host), edges[edge / EDGES].Get(edge % EDGES), slow, host);
    }
    for (uint32_t pod = 0; pod < PODS; pod++)
    {
        // An edge switch's ports up are in the order of its aggregation switches, and theirs down in the order of edge switches.
        for (uint32_t edge = 0; edge < EDGES; edge++)
        {
            for (uint32_t aggregation = 0; aggregation < AGGREGATIONS; aggregation++)
            {
                Join(edges[pod].Get(edge), aggregations[pod].Get(aggregation), fast, HOSTS);
            }
        }
        for (uint32_t core = 0; core < AGGREGATIONS * CORES; core++)
        {
            Join(aggregations[pod].Get(core / CORES), cores.Get(core), fast, HOSTS);
        }
    }
    for (uint32_t host = 0; host < HOSTS; host++)
    {
        Ptr<Socket> socket = Socket::CreateSocket(g_hosts.Get(host), TcpSocketFactory::GetTypeId());
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        socket->Listen();
        socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(), MakeCallback(&Accepted));
    }
}

} // namespace

int
main(int count, char** words)
{
    if (count != 3)
    {
        std::fprintf(stderr, "fat_tree FLOWS SEED\n");
        return 2;
    }
    g_flows = std::strtoull(words[1], nullptr, 10);
    g_random.seed(std::strtoull(words[2], nullptr, 10));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 20));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    MakeTree();
    double norm = 1 - std::pow(LEAST / MOST, ALPHA);
    double mean = ALPHA * std::pow(LEAST, ALPHA) / norm * (std::pow(MOST, 1 - ALPHA) - std::pow(LEAST, 1 - ALPHA)) / (1 - ALPHA);
    g_gap = mean * 8 / (1e9 * HOSTS * LOAD);
    Simulator::Schedule(Seconds(0), &BeginNext);
    auto begun = std::chrono::steady_clock::now();
    Simulator::Run();
    double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (g_flows > 0 || g_received != g_sent)
    {
        std::fprintf(stderr, "%llu bytes of %llu arrived\n", (unsigned long long)g_received, (unsigned long long)g_sent);
        return 1;
    }
    double events = Simulator::GetEventCount();
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    std::printf("{\"figures\": {\"events\": %.0f, \"events_per_s\": %.1f, \"hops_per_s\": %.1f, \"peak_mib\": %.2f}}\n",
                events,
                events / took,
                g_hops / took,
                usage.ru_maxrss / 1024.0);
    return 0;
}
